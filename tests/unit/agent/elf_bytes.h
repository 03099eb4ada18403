// Programs and libraries that are never run, for tests of what is read in them.
#pragma once

#include <elf.h>

#include <cstring>
#include <string>
#include <vector>

namespace trainrun::agent {

// An ELF that asks for these libraries, with this RUNPATH if there is one, and for these functions; as small
// as it can be.
inline std::string elf(const std::vector<std::string>& libraries, const std::string& runpath = {},
                       const std::vector<std::string>& functions = {}) {
  std::string strings(1, '\0');
  const auto add = [&](const std::string& text) {
    const auto at = strings.size();
    strings += text;
    strings.push_back('\0');
    return at;
  };
  std::vector<Elf64_Dyn> dynamic;
  for (const auto& library : libraries) dynamic.push_back({DT_NEEDED, {add(library)}});
  if (!runpath.empty()) dynamic.push_back({DT_RUNPATH, {add(runpath)}});
  for (const auto& function : functions) add(function);
  dynamic.push_back({DT_STRSZ, {strings.size()}});
  constexpr std::size_t base = 0x400000;
  Elf64_Ehdr file{};
  std::memcpy(file.e_ident, ELFMAG, SELFMAG);
  file.e_ident[EI_CLASS] = ELFCLASS64;
  file.e_ident[EI_DATA] = ELFDATA2LSB;
  file.e_phoff = sizeof file;
  file.e_phentsize = sizeof(Elf64_Phdr);
  file.e_phnum = 2;
  const auto dynamic_at = sizeof file + 2 * sizeof(Elf64_Phdr);
  const auto strings_at = dynamic_at + (dynamic.size() + 2) * sizeof(Elf64_Dyn);
  dynamic.push_back({DT_STRTAB, {base + strings_at}});
  dynamic.push_back({DT_NULL, {0}});
  Elf64_Phdr load{}, headers{};
  load.p_type = PT_LOAD;
  load.p_vaddr = base;
  load.p_filesz = strings_at + strings.size();
  headers.p_type = PT_DYNAMIC;
  headers.p_offset = dynamic_at;
  headers.p_filesz = dynamic.size() * sizeof(Elf64_Dyn);
  std::string bytes;
  const auto put = [&bytes](const void* from, std::size_t size) {
    bytes.append(static_cast<const char*>(from), size);
  };
  put(&file, sizeof file);
  put(&load, sizeof load);
  put(&headers, sizeof headers);
  put(dynamic.data(), dynamic.size() * sizeof(Elf64_Dyn));
  return bytes + strings;
}

}  // namespace trainrun::agent
