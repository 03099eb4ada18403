// Which libraries a program or library asks for: as much of ELF as that takes. Pure over whatever can be
// read at an offset; what is no ELF of this kind of machine, or cut short, or a lie, is told as such.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainrun::agent {

struct ElfNeeds {
  std::vector<std::string> libraries;  // DT_NEEDED, in order
  std::vector<std::string> search;     // DT_RUNPATH, else DT_RPATH, with $ORIGIN as it is
  // It names a function of the C library that executes a program or loads a library (execve, dlopen, ...), or
  // has all of them in itself, as a static program.
  bool runs_others = false;
};

// Fills `out` from `offset` on; false: there is not so much.
using ReadAt = std::function<bool(std::uint64_t offset, char* out, std::size_t size)>;

// Empty lists of a static program, which may run others. Nothing: no 64-bit little-endian ELF.
std::optional<ElfNeeds> read_elf(const ReadAt& read);
std::optional<ElfNeeds> read_elf_file(const std::string& path);

}  // namespace trainrun::agent
