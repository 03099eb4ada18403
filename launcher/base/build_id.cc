#include "launcher/base/build_id.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <cstddef>
#include <cstring>
#include <string_view>

namespace trainrun {
namespace {

constexpr std::size_t padded(std::size_t size) { return (size + 3) & ~std::size_t{3}; }

std::string id_in(std::string_view notes) {
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) head;
    std::memcpy(&head, notes.data(), sizeof head);
    const auto name = sizeof head, what = name + padded(head.n_namesz), end = what + padded(head.n_descsz);
    if (end > notes.size()) break;
    if (head.n_type == NT_GNU_BUILD_ID && notes.substr(name, head.n_namesz) == std::string_view("GNU\0", 4)) {
      std::string out;
      for (const unsigned char byte : notes.substr(what, head.n_descsz)) out += fmt::format("{:02x}", byte);
      return out;
    }
    notes.remove_prefix(end);
  }
  return {};
}

}  // namespace

std::string build_id() {
  std::string found;
  ::dl_iterate_phdr(
      [](dl_phdr_info* program, std::size_t, void* out) {
        auto& id = *static_cast<std::string*>(out);
        for (int i = 0; i < program->dlpi_phnum && id.empty(); ++i) {
          const auto& part = program->dlpi_phdr[i];
          if (part.p_type != PT_NOTE) continue;
          const auto* begins = reinterpret_cast<const char*>(program->dlpi_addr + part.p_vaddr);
          id = id_in({begins, part.p_memsz});
        }
        return 1;  // the first is the program itself
      },
      &found);
  return found;
}

}  // namespace trainrun
