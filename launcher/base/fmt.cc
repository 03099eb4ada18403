// fmt, compiled once for everything of ours. Debian has it as headers, which cost every file that formats a
// line seconds of compiling, and as a shared library, which neither the static agent nor a launcher that
// starts in a millisecond can use (launcher/decisions/0013-linking.md). The instantiations are those that its
// headers declare and leave to its own library.
#include <fmt/format-inl.h>

template auto fmt::detail::thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto fmt::detail::decimal_point_impl<char>(locale_ref) -> char;
