#include "launcher/agent/mpi_program.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "launcher/agent/elf.h"
#include "launcher/agent/horovod_program.h"
#include "launcher/agent/program_files.h"
#include "launcher/agent/shell_text.h"
#include "launcher/base/strings.h"
#include "launcher/base/wrapper.h"
#include "launcher/io/spawn.h"
#include "launcher/wire/env_pairs.h"

namespace trainrun::agent {
namespace {

constexpr std::size_t most_words = 64, most_files = 256;
constexpr const char* pmix_name = "libpmix.so.2";  // of releases 2 to 6
// Where the loader looks without being told; what lies there needs no library of an MPI elsewhere.
constexpr const char* system_folders[] = {"/lib/x86_64-linux-gnu",
                                          "/usr/lib/x86_64-linux-gnu",
                                          "/lib/aarch64-linux-gnu",
                                          "/usr/lib/aarch64-linux-gnu",
                                          "/lib64",
                                          "/usr/lib64",
                                          "/lib",
                                          "/usr/lib",
                                          "/usr/local/lib"};

std::string with_origin(std::string folder, const std::string& file) {
  for (const std::string_view name : {"$ORIGIN", "${ORIGIN}"})
    if (const auto at = folder.find(name); at != std::string::npos)
      folder.replace(at, name.size(), folder_of(file));
  return folder;
}

std::string find_in(const std::vector<std::string>& folders, const std::string& name) {
  for (const auto& folder : folders)
    if (auto path = folder + "/" + name; is_file(path)) return path;
  return {};
}

std::vector<std::string> folders_of(const ElfNeeds& needs, const std::string& file,
                                    const wire::EnvPairs& env) {
  std::vector<std::string> folders;
  for (const auto& folder : needs.search) folders.push_back(with_origin(folder, file));
  for (auto& folder : cut(wire::value_of(env, "LD_LIBRARY_PATH"), ":")) folders.push_back(std::move(folder));
  return folders;
}

// The loader's own list has the name and then the path of every library that it knows, each before a zero.
std::string path_in_loaders_list(const std::string& name) {
  constexpr std::size_t most_bytes = 16u << 20;
  static const auto bytes = read_file("/etc/ld.so.cache", most_bytes).value_or(std::string{});
  auto wanted = "/" + name;
  wanted.push_back('\0');
  for (auto at = bytes.find(wanted); at != std::string::npos; at = bytes.find(wanted, at + 1)) {
    const auto begin = bytes.rfind('\0', at) + 1;
    // Of another kind of machine there may be one as well.
    if (auto path = bytes.substr(begin, at + wanted.size() - 1 - begin); is_library(path)) return path;
  }
  return {};
}

// As the loader finds it, where a program that asks for it looks in `folders` before all others.
std::string find_library(const std::string& name, const std::vector<std::string>& folders) {
  if (auto path = find_in(folders, name); !path.empty()) return path;
  if (auto path = path_in_loaders_list(name); !path.empty()) return path;
  return find_in({std::begin(system_folders), std::end(system_folders)}, name);
}

// Where a program's libmpi ("": it was not found) lies, and looks for others.
MpiProgram with_library(MpiFamily family, const std::string& what, const std::string& name,
                        const std::string& libmpi) {
  MpiProgram program{.family = family, .what = what};
  if (libmpi.empty()) {
    program.missing = name + ": not found";
    return program;
  }
  program.libraries.push_back(folder_of(libmpi));
  if (const auto its = read_elf_file(libmpi))
    for (auto& folder : folders_of(*its, libmpi, {})) program.libraries.push_back(std::move(folder));
  else
    program.missing = libmpi + ": no library that can be loaded";
  return program;
}

// Libraries of the language and the system, which nearly every program has and which need no MPI.
bool is_of_the_system(const std::string& library) {
  for (const std::string_view theirs :
       {"libc.so.", "libm.so.", "libgcc_s.so.", "libstdc++.so.", "libgfortran.so.", "libpthread.so.",
        "libdl.so.", "librt.so.", "ld-linux"})
    if (library.starts_with(theirs)) return true;
  return false;
}

// Follows the libraries, those in folders of their own first. A solver in one of the system's folders may be
// linked with an MPI as well; what needs that may have other use for it. A library that is nowhere is found
// by what the program alone knows (a script's LD_LIBRARY_PATH, an older kind of search path), and so may be
// an MPI.
MpiProgram recognise_elf(const std::string& path, const wire::EnvPairs& env) {
  // Of a link, $ORIGIN is where it leads to.
  std::error_code unreadable;
  const auto real = std::filesystem::canonical(path, unreadable);
  std::vector<std::string> open{unreadable ? path : real.string()}, of_the_system;
  std::set<std::string> seen{open.front()};
  bool guessed = false, lost = false, runs_others = false;
  while (seen.size() < most_files) {
    if (open.empty()) {
      guessed = true;
      std::swap(open, of_the_system);
    }
    if (open.empty()) break;
    const auto file = open.back();
    open.pop_back();
    const auto needs = read_elf_file(file);
    if (!needs) continue;
    runs_others |= needs->runs_others && !guessed;
    const auto folders = folders_of(*needs, file, env);
    for (const auto& library : needs->libraries) {
      if (is_of_the_system(library)) continue;
      const auto own = find_in(folders, library);
      const auto found = own.empty() ? find_library(library, {}) : own;
      if (const auto family = family_of_library(library); family != MpiFamily::none) {
        auto program = with_library(family, path, library, found);
        program.guessed = guessed;
        return program;
      }
      lost |= found.empty();
      if (!found.empty() && seen.insert(found).second) (own.empty() ? of_the_system : open).push_back(found);
    }
  }
  MpiProgram none;
  none.hidden = lost;
  none.interpreter = runs_others;
  return none;
}

// mpi4py's wheels have an extension for each MPI, and load the one that suits the first libmpi that they
// find, by these names in this order (mpi4py 4.1, _mpiabi.py).
MpiProgram recognise_mpi4py(const std::string& extension, const std::string& prefix,
                            const wire::EnvPairs& env) {
  std::vector<std::string> folders = cut(wire::value_of(env, "MPI4PY_LIBMPI"), ":");
  folders.push_back(prefix + "/lib");
  folders.push_back(wire::value_of(env, "HOME") + "/.local/lib");
  for (auto& folder : cut(wire::value_of(env, "LD_LIBRARY_PATH"), ":")) folders.push_back(std::move(folder));
  folders.insert(folders.end(), std::begin(system_folders), std::end(system_folders));
  for (const auto& folder : folders) {
    for (const std::string name : {"", "/libmpi.so", "/libmpi.so.12", "/libmpi.so.40"}) {
      // Of "libmpi.so" only what it is a link to tells whose it is.
      std::error_code error;
      const auto libmpi = std::filesystem::canonical(folder + name, error);
      if (error) continue;
      if (const auto family = family_of_library(libmpi.filename()); family != MpiFamily::none)
        return with_library(family, extension, libmpi.filename(), libmpi);
    }
  }
  return {};
}

// An interpreter of Python is what its mpi4py is, or a Horovod that knows nothing but MPI.
MpiProgram recognise_python(const std::string& path, const wire::EnvPairs& env) {
  const auto prefix = folder_of(folder_of(path));
  for (const auto& folder : package_folders(path, env)) {
    auto extensions = entries(folder + "/mpi4py", "MPI*.so");
    if (extensions.empty()) extensions = horovods_of_mpi_alone(folder);
    if (extensions.empty()) continue;
    const bool wheel = extensions.size() > 1 && extensions.front().starts_with(folder + "/mpi4py/");
    auto program =
        wheel ? recognise_mpi4py(extensions.front(), prefix, env) : recognise_elf(extensions.front(), env);
    program.guessed = true;
    if (program.family != MpiFamily::none) return program;
  }
  return {.what = path, .interpreter = true};
}

// By its name: tools like pyenv put scripts of that name before the real one.
bool is_interpreter(const std::string& path) {
  const auto name = name_of(path);
  if (name.starts_with("python")) return true;
  if (name.starts_with("perl")) return true;
  for (const std::string_view theirs : {"julia", "R", "Rscript", "octave", "octave-cli", "java", "ruby",
                                        "tclsh", "lua", "make", "gmake", "apptainer", "singularity"})
    if (name == theirs) return true;
  return false;
}

MpiProgram recognise_file(const std::string& path, const wire::EnvPairs& env) {
  const auto line = first_line(path);
  if (line.starts_with("#!")) {
    auto words = cut(line.substr(2), " \t\r");
    if (words.size() > 1 && name_of(words[0]) == "env") words.erase(words.begin());
    const auto interpreter =
        words.empty() ? io::Found{{}, ENOENT} : io::find_program(words[0], wire::value_of(env, "PATH"), "/");
    if (interpreter.error == 0 && name_of(interpreter.path).starts_with("python"))
      return recognise_python(interpreter.path, env);
    return {.what = path, .interpreter = is_interpreter(interpreter.path) || is_interpreter(path)};
  }
  if (name_of(path).starts_with("python")) return recognise_python(path, env);
  auto program = recognise_elf(path, env);
  program.interpreter = program.interpreter || is_interpreter(path);
  // What these run stands in their words or their text, which are looked at.
  if (is_shell(path) || is_wrapper(path) || name_of(path) == "env") program.interpreter = false;
  return program;
}

MpiProgram recognise_text(std::string_view text, const std::string& directory, const wire::EnvPairs& env,
                          int depth = 0) {
  MpiProgram undecided;
  undecided.hidden = hides_a_program(text, directory);
  undecided.guessed = true;
  if (starts_ranks(text)) return {};
  const auto words = words_of_text(text);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (is_launcher(words[i])) continue;  // it is spoken of
    const auto found = io::find_program(words[i], wire::value_of(env, "PATH"), directory);
    auto program = found.error == 0 ? recognise_file(found.path, env) : MpiProgram{};
    const auto inner = depth < deepest_script
                           ? text_for_shell(words, i, found.error == 0 ? found.path : "", directory)
                           : std::nullopt;
    if (program.family == MpiFamily::none && inner) {
      undecided.interpreter |= program.interpreter;
      program = recognise_text(*inner, directory, env, depth + 1);
    }
    if (program.family != MpiFamily::none) return program;
    undecided.interpreter |= program.interpreter;
    undecided.hidden |= program.hidden;
  }
  return undecided;
}

}  // namespace

bool is_library(const std::string& path) { return read_elf_file(path).has_value(); }

MpiFamily family_of_library(const std::string& name) {
  if (name.starts_with("libmpich") || name.starts_with("libmpi.so.12") ||
      name.starts_with("libmpifort.so.12"))
    return MpiFamily::mpich;
  for (const std::string_view theirs :
       {"libmpi.so.", "libmpi_mpifh.so.", "libmpi_usempif08.so.", "libmpi_usempi_ignore_tkr.so.",
        "libmpi_cxx.so.", "liboshmem.so.", "libpmix.so."})
    if (name.starts_with(theirs)) return MpiFamily::open_mpi;
  return MpiFamily::none;
}

MpiProgram recognise(const std::vector<std::string>& words, const std::string& directory,
                     const wire::EnvPairs& env) {
  const auto path = wire::value_of(env, "PATH");
  MpiProgram best;
  std::size_t looked_at = 0;
  const auto take = [&best](MpiProgram program) {
    const bool interpreter = best.interpreter || program.interpreter, hidden = best.hidden || program.hidden;
    if (program.family > best.family) best = std::move(program);
    best.interpreter = interpreter;
    best.hidden = hidden;
  };
  for (std::size_t i = 0; i < words.size() && looked_at < most_words; ++i) {
    const auto whole = io::find_program(words[i], path, directory);
    const auto text = text_for_shell(words, i, whole.error == 0 ? whole.path : "", directory);
    if (text) {
      auto program = recognise_text(*text, directory, env);
      program.guessed = true;
      // Tools such as pyenv put scripts of that name before the real one.
      program.hidden = program.hidden || name_of(words[i]).starts_with("python");
      take(std::move(program));
    }
    // A word with blanks may be a command for the tool before it.
    for (const auto& word : i == 0 ? std::vector<std::string>{words[i]} : cut(words[i], " \t\n;&|()'\"`")) {
      if (word.starts_with('-') || ++looked_at > most_words) continue;
      if (is_launcher(word)) {
        if (!text || starts_ranks(*text)) return {};
        continue;
      }
      const auto found = word == words[i] ? whole : io::find_program(word, path, directory);
      if (found.error != 0) continue;
      auto program = recognise_file(found.path, env);
      program.guessed |= i > 0;
      take(std::move(program));
    }
    if (best.family > MpiFamily::none) break;
  }
  return best;
}

std::vector<std::string> pmix_libraries(const MpiProgram& program, const wire::EnvPairs& env) {
  std::vector<std::string> found;
  const auto add = [&](const std::string& folder) {
    if (auto path = folder + "/" + pmix_name;
        is_file(path) && std::find(found.begin(), found.end(), path) == found.end())
      found.push_back(std::move(path));
  };
  for (const auto& folder : program.libraries) add(folder);
  for (const auto& folder : cut(wire::value_of(env, "LD_LIBRARY_PATH"), ":")) add(folder);
  if (auto path = path_in_loaders_list(pmix_name);
      !path.empty() && std::find(found.begin(), found.end(), path) == found.end())
    found.push_back(std::move(path));
  for (const auto* const folder : system_folders) add(folder);
  return found;
}

std::string open_mpi_prefix(const MpiProgram& program) {
  if (program.family != MpiFamily::open_mpi || program.libraries.empty()) return {};
  auto prefix = folder_of(program.libraries.front());
  return is_file(prefix + "/share/openmpi/help-mca-var.txt") ? prefix : std::string();
}

}  // namespace trainrun::agent
