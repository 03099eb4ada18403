#include "launcher/agent/elf.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>
#include <string_view>

#include "launcher/base/fd.h"

namespace trainrun::agent {
namespace {

constexpr std::size_t most_headers = 512, most_entries = 65536, most_libraries = 1024;
constexpr std::size_t longest_string = 4096, most_strings = 4u << 20;

// One read for a whole table: every program is looked at before it is started.
template <class T>
bool get(const ReadAt& read, std::uint64_t offset, std::span<T> out) {
  return out.empty() || read(offset, reinterpret_cast<char*>(out.data()), out.size_bytes());
}

// Where an address of the running program lies in the file.
std::optional<std::uint64_t> offset_of(const std::vector<Elf64_Phdr>& headers, std::uint64_t address) {
  for (const auto& header : headers) {
    if (header.p_type == PT_LOAD && address >= header.p_vaddr && address - header.p_vaddr < header.p_filesz)
      return address - header.p_vaddr + header.p_offset;
  }
  return std::nullopt;
}

std::optional<std::string> string_at(const ReadAt& read, std::uint64_t offset) {
  std::string text;
  char piece[64];
  while (text.size() < longest_string) {
    // The table may end with the file: then byte by byte.
    std::size_t size = sizeof piece;
    if (!read(offset + text.size(), piece, size)) {
      size = 1;
      if (!read(offset + text.size(), piece, size)) return std::nullopt;
    }
    const auto* const end = static_cast<const char*>(std::memchr(piece, 0, size));
    text.append(piece, end == nullptr ? size : static_cast<std::size_t>(end - piece));
    if (end != nullptr) return text;
  }
  return std::nullopt;
}

std::vector<std::string> split_path(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const auto end = std::min(text.find(':', at), text.size());
    if (end > at) parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// Names of symbols share their ends ("execv" may be that of "fexecv"): one that is longer counts as well.
bool names_one_that_runs_others(std::string_view strings) {
  constexpr std::string_view theirs[] = {"execl",  "execle",  "execlp",   "execv",       "execve",
                                         "execvp", "execvpe", "execveat", "posix_spawn", "posix_spawnp",
                                         "system", "popen",   "dlopen"};
  for (auto end = strings.find('\0'); end != std::string_view::npos; end = strings.find('\0', end + 1)) {
    const auto symbol = strings.substr(0, end);
    if (std::any_of(std::begin(theirs), std::end(theirs),
                    [symbol](std::string_view name) { return symbol.ends_with(name); }))
      return true;
  }
  return false;
}

}  // namespace

std::optional<ElfNeeds> read_elf(const ReadAt& read) {
  Elf64_Ehdr file{};
  if (!get(read, 0, std::span(&file, 1)) || std::memcmp(file.e_ident, ELFMAG, SELFMAG) != 0 ||
      file.e_ident[EI_CLASS] != ELFCLASS64 || file.e_ident[EI_DATA] != ELFDATA2LSB ||
      file.e_phentsize != sizeof(Elf64_Phdr) || file.e_phnum > most_headers)
    return std::nullopt;
  std::vector<Elf64_Phdr> headers(file.e_phnum);
  if (!get(read, file.e_phoff, std::span(headers))) return std::nullopt;
  ElfNeeds needs;
  const auto dynamic = std::find_if(headers.begin(), headers.end(),
                                    [](const Elf64_Phdr& header) { return header.p_type == PT_DYNAMIC; });
  needs.runs_others = dynamic == headers.end();
  if (needs.runs_others) return needs;

  std::vector<std::uint64_t> libraries;
  std::optional<std::uint64_t> strings, runpath, rpath;
  std::uint64_t size_of_strings = 0;
  std::vector<Elf64_Dyn> entries(
      std::min<std::uint64_t>(dynamic->p_filesz / sizeof(Elf64_Dyn), most_entries));
  if (!get(read, dynamic->p_offset, std::span(entries))) return std::nullopt;
  for (const auto& entry : entries) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_NEEDED && libraries.size() < most_libraries) libraries.push_back(entry.d_un.d_val);
    if (entry.d_tag == DT_STRTAB) strings = offset_of(headers, entry.d_un.d_ptr);
    if (entry.d_tag == DT_STRSZ) size_of_strings = std::min<std::uint64_t>(entry.d_un.d_val, most_strings);
    if (entry.d_tag == DT_RUNPATH) runpath = entry.d_un.d_val;
    if (entry.d_tag == DT_RPATH) rpath = entry.d_un.d_val;
  }
  if (!strings) return needs;
  for (const auto offset : libraries) {
    auto name = string_at(read, *strings + offset);
    if (!name) return std::nullopt;
    needs.libraries.push_back(std::move(*name));
  }
  if (const auto where = runpath ? runpath : rpath) {
    const auto text = string_at(read, *strings + *where);
    if (!text) return std::nullopt;
    needs.search = split_path(*text);
  }
  std::string all(size_of_strings, '\0');
  needs.runs_others =
      libraries.empty() || (read(*strings, all.data(), all.size()) && names_one_that_runs_others(all));
  return needs;
}

std::optional<ElfNeeds> read_elf_file(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return std::nullopt;
  return read_elf([&](std::uint64_t offset, char* out, std::size_t size) {
    if (offset > static_cast<std::uint64_t>(INT64_MAX)) return false;
    return ::pread(file.get(), out, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
  });
}

}  // namespace trainrun::agent
