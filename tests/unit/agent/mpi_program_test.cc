#include "launcher/agent/mpi_program.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "launcher/agent/elf.h"
#include "launcher/agent/shell_text.h"
#include "tests/unit/agent/elf_bytes.h"
#include "tests/unit/agent/temporary_folder.h"

namespace trainrun::agent {
namespace {

std::optional<ElfNeeds> read_text(std::string_view bytes) {
  return read_elf([bytes](std::uint64_t offset, char* out, std::size_t size) {
    if (offset > bytes.size() || bytes.size() - offset < size) return false;
    std::memcpy(out, bytes.data() + offset, size);
    return true;
  });
}

struct Folder : TemporaryFolder {
  std::string put(const std::string& name, const std::string& bytes) const {
    return TemporaryFolder::put(name, bytes, 0755);
  }
};

}  // namespace

TEST_SUITE("mpi program") {
  TEST_CASE("what an ELF asks for is read, and what is none or lies is told as such") {
    const auto whole = elf({"libmpi.so.40", "libc.so.6"}, "/opt/lib:$ORIGIN/../lib");
    const auto needs = read_text(whole);
    REQUIRE(needs);
    CHECK(needs->libraries == std::vector<std::string>{"libmpi.so.40", "libc.so.6"});
    CHECK(needs->search == std::vector<std::string>{"/opt/lib", "$ORIGIN/../lib"});
    // Whatever is cut off: nothing, or a part of the same; never more.
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const auto part = read_text(std::string_view(whole).substr(0, size));
      if (part) CHECK(part->libraries.size() <= 2);
    }
    CHECK_FALSE(read_text("#!/bin/sh\n"));
    CHECK_FALSE(read_text(""));
  }

  TEST_CASE("libraries tell whose MPI it is") {
    for (const auto* const theirs :
         {"libmpi.so.40", "libmpi.so.20", "libmpi_mpifh.so.40", "libmpi_usempif08.so.40"})
      CHECK(family_of_library(theirs) == MpiFamily::open_mpi);
    for (const auto* const theirs : {"libmpi.so.12", "libmpich.so.12", "libmpichfort.so.12"})
      CHECK(family_of_library(theirs) == MpiFamily::mpich);
    for (const auto* const other : {"libmpi", "libm.so.6", "libmpir.so.3", "libmpihelper.so.1"})
      CHECK(family_of_library(other) == MpiFamily::none);
  }

  TEST_CASE("a program is what it is linked with, also by way of a library of its own") {
    const Folder folder;
    const wire::EnvPairs env{{"PATH", folder.path}};
    const auto family = [&](const std::string& bytes) {
      return recognise({folder.put("program", bytes)}, "/", env).family;
    };
    CHECK(family(elf({"libc.so.6"})) == MpiFamily::none);
    CHECK(family(elf({})) == MpiFamily::none);
    CHECK(family(elf({"libc.so.6", "libmpi.so.40"})) == MpiFamily::open_mpi);
    CHECK(family(elf({"libmpich.so.12"})) == MpiFamily::mpich);
    folder.put("lib/libsolver.so", elf({"libmpi.so.40"}));
    CHECK(family(elf({"libsolver.so"}, "$ORIGIN/lib")) == MpiFamily::open_mpi);
    CHECK(family(elf({"libsolver.so"})) == MpiFamily::none);
    CHECK(recognise({"program"}, "/", {{"PATH", folder.path}, {"LD_LIBRARY_PATH", folder.path + "/lib"}})
              .family == MpiFamily::open_mpi);
    // Two libraries that ask for each other.
    folder.put("lib/libsolver.so", elf({"libother.so"}, "$ORIGIN"));
    folder.put("lib/libother.so", elf({"libsolver.so"}, "$ORIGIN"));
    CHECK(family(elf({"libsolver.so"}, "$ORIGIN/lib")) == MpiFamily::none);
  }

  TEST_CASE("of a link, its libraries lie where the loader looks: beside what it leads to") {
    const Folder folder;
    folder.put("opt/bin/app", elf({"libapp.so"}, "$ORIGIN/../lib"));
    folder.put("opt/lib/libapp.so", elf({"libmpi.so.40"}));
    REQUIRE(::symlink("opt/bin/app", (folder.path + "/app").c_str()) == 0);
    CHECK(recognise({"./app"}, folder.path, {}).family == MpiFamily::open_mpi);
  }

  TEST_CASE(
      "who can run another program or load a library may come to an MPI so; not what runs its own words") {
    const Folder folder;
    const auto may = [&](const std::string& name, const std::string& bytes) {
      return recognise({folder.put(name, bytes)}, "/", {}).interpreter;
    };
    CHECK(may("driver", elf({"libc.so.6"}, {}, {"puts", "execve"})));
    CHECK(may("loader", elf({"libc.so.6"}, {}, {"dlopen"})));
    CHECK(may("static", elf({})));
    CHECK_FALSE(may("solver", elf({"libc.so.6"}, {}, {"puts", "dlopen_later"})));
    folder.put("libours.so", elf({"libc.so.6"}, {}, {"posix_spawn"}));
    CHECK(may("driver", elf({"libours.so"}, "$ORIGIN")));
    for (const std::string runs_its_words : {"nice", "env", "bash"})
      CHECK_FALSE(may(runs_its_words, elf({"libc.so.6"}, {}, {"execve"})));
  }

  TEST_CASE("who needs a library that is nowhere may be linked with any MPI") {
    const Folder folder;
    CHECK(recognise({folder.put("lost", elf({"libnowhere.so.1"}))}, "/", {}).hidden);
    CHECK_FALSE(recognise({folder.put("found", elf({"libc.so.6"}))}, "/", {}).hidden);
  }

  TEST_CASE("what a tool or a shell is told to run counts") {
    const Folder folder;
    const auto mpi = folder.put("solver", elf({"libmpi.so.40"}));
    const auto tool = folder.put("numactl", elf({"libc.so.6"}));
    const auto shell = folder.put("sh", elf({"libc.so.6"}));
    const wire::EnvPairs env{{"PATH", folder.path}};
    CHECK(recognise({tool, "--localalloc", "./solver", "-n", "3"}, folder.path, env).family ==
          MpiFamily::open_mpi);
    CHECK(recognise({"numactl", "--localalloc", "data"}, folder.path, env).family == MpiFamily::none);
    CHECK(recognise({"sh", "-c", "cd /x; exec solver 3"}, "/", env).family == MpiFamily::open_mpi);
    CHECK(recognise({"sh", "-c", "$SOLVER"}, "/", env).family == MpiFamily::none);
    const auto job = folder.put("job", "#!/bin/sh\n# mpi of the shell\nset -e\nexec solver \"$@\"\n");
    CHECK(recognise({job}, "/", env).family == MpiFamily::open_mpi);
    CHECK(recognise({folder.put("other", "#!/bin/sh\n# solver\nother\n")}, "/", env).family ==
          MpiFamily::none);
    CHECK(recognise({"nothing"}, "/", env).family == MpiFamily::none);
    // What is only named need not be run: nothing depends on it.
    CHECK(recognise({tool, "./solver"}, folder.path, env).guessed);
    CHECK(recognise({job}, "/", env).guessed);
    CHECK_FALSE(recognise({"solver", "3"}, "/", env).guessed);
  }

  TEST_CASE("a script that a shell is told to run is looked into, and so are those that it starts") {
    const Folder folder;
    folder.put("solver", elf({"libmpi.so.40"}));
    folder.put("run.sh", "#!/bin/sh\nexec ./solver \"$@\"\n");
    folder.put("bare", "./solver 3\n");
    folder.put("outer.sh", "#!/bin/sh\nset -e\nbash run.sh\n");
    folder.put("outermost.sh", "#!/bin/bash\n./outer.sh\n");
    folder.put("loop.sh", "#!/bin/sh\n./loop.sh; ./outer.sh\n");
    folder.put("inner.sh", "#!/bin/sh\nexec mpirun -np 2 ./solver\n");
    const wire::EnvPairs env{{"PATH", "/usr/bin:/bin"}};
    using Words = std::vector<std::string>;
    for (const auto& words :
         {Words{"bash", "run.sh"}, Words{"sh", "-e", folder.path + "/run.sh"}, Words{"bash", "bare"},
          Words{"./bare"}, Words{"/bin/bash", "-o", "pipefail", "run.sh", "3"},
          Words{"env", "A=1", "sh", "run.sh"}, Words{"sh", "-c", "bash run.sh"}, Words{"bash", "outer.sh"},
          Words{"./outermost.sh"}, Words{"./loop.sh"}, Words{"timeout", "5", "bash", "run.sh"}}) {
      CAPTURE(words.back());
      const auto found = recognise(words, folder.path, env);
      CHECK(found.family == MpiFamily::open_mpi);
      CHECK(found.guessed);
    }
    for (const auto& words : {Words{"bash", "inner.sh"}, Words{"echo", "bare"}, Words{"bash", "missing.sh"}})
      CHECK(recognise(words, folder.path, env).family == MpiFamily::none);
  }

  TEST_CASE("a script that alone knows what it runs is told as such") {
    for (const auto* text :
         {"EXE=./hello; exec $EXE", "D=$(dirname $0)\nexec $D/hello", "source env.sh; time $EXE -n 3",
          "cd /nowhere/else\n./hello", ". ./env.sh; app", "module load app\napp",
          "export PATH=/opt/app:$PATH\napp", "LD_LIBRARY_PATH=/opt/lib ./app", "exec \"$HOME/bin/hello\"",
          "if true; then $RUN; fi"}) {
      CAPTURE(text);
      CHECK(hides_a_program(text, "/"));
    }
    for (const auto* text : {"exec \"$@\"", "echo $RANK", "# $EXE", "export A=$B", "exec ./hello $ARGS",
                             "cd /tmp; ls $HOME", "[ -n \"$A\" ] && echo x", "env A=$B true", ""}) {
      CAPTURE(text);
      CHECK_FALSE(hides_a_program(text, "/"));
    }
    for (const auto* text : {"bash $HERE/run.sh", "sh -e \"$D\"/run.sh 3"}) CHECK(hides_a_program(text, "/"));
    for (const auto* text : {"bash run.sh", "sh run.sh; echo $A"}) CHECK_FALSE(hides_a_program(text, "/"));
    CHECK(recognise({"bash", "-c", "$EXE 3"}, "/", {{"PATH", "/usr/bin:/bin"}}).hidden);
    CHECK_FALSE(recognise({"bash", "-c", "echo $EXE"}, "/", {{"PATH", "/usr/bin:/bin"}}).hidden);
  }

  TEST_CASE("what another launcher is to start is left to that one") {
    const Folder folder;
    folder.put("solver", elf({"libmpi.so.40"}));
    folder.put("mpirun", elf({"libpmix.so.2"}));
    const wire::EnvPairs env{{"PATH", folder.path}};
    CHECK(recognise({"mpirun", "-np", "2", "solver"}, "/", env).family == MpiFamily::none);
    CHECK(recognise({"env", "A=1", folder.path + "/mpirun", "solver"}, "/", env).family == MpiFamily::none);
    folder.put("sh", elf({"libc.so.6"}));
    CHECK(recognise({"sh", "-c", "mpirun -np 2 solver"}, "/", env).family == MpiFamily::none);
    const auto job = folder.put("job", "#!/bin/sh\nexec mpirun -np 2 solver\n");
    CHECK(recognise({job}, "/", env).family == MpiFamily::none);
    for (const auto* text : {"mpirun x", "exec mpiexec.hydra x", "time srun x", "if ! mpirun x; then y; fi",
                             "bash -c \"mpirun x\"", "timeout 5m /opt/bin/mpirun x", "A=1 mpirun x"}) {
      CAPTURE(text);
      CHECK(starts_ranks(text));
    }
  }

  TEST_CASE("a launcher that is only spoken of starts nothing") {
    const Folder folder;
    folder.put("solver", elf({"libmpi.so.40"}));
    folder.put("mpirun_test", elf({"libmpi.so.40"}));
    folder.put("sh", elf({"libc.so.6"}));
    folder.put("job", "#!/bin/sh\necho \"started by mpirun on $(hostname)\"\nexec 2> mpirun.log\n./solver\n");
    const wire::EnvPairs env{{"PATH", folder.path}};
    using Words = std::vector<std::string>;
    for (const auto& words : {Words{"./job"}, Words{"./mpirun_test"}, Words{"./solver", "mpirun"},
                              Words{"sh", "-c", "./solver; echo \"mpirun done\""}}) {
      CAPTURE(words.back());
      CHECK(recognise(words, folder.path, env).family == MpiFamily::open_mpi);
    }
  }

  TEST_CASE("a library of MPI that is not there, or is none, is told") {
    const Folder folder;
    const auto missing = [&] {
      return recognise({folder.put("solver", elf({"libmpi.so.99"}, "$ORIGIN"))}, "/", {}).missing;
    };
    CHECK(missing() == "libmpi.so.99: not found");
    const auto library = folder.put("libmpi.so.99", "junk");
    CHECK(missing() == library + ": no library that can be loaded");
    folder.put("libmpi.so.99", elf({}));
    CHECK(missing().empty());
  }

  TEST_CASE("Python is what its mpi4py is") {
    const Folder folder;
    const auto python = folder.put("env/bin/python3", elf({"libc.so.6"}));
    const wire::EnvPairs env{{"PATH", folder.path + "/env/bin"}, {"HOME", folder.path + "/home"}};
    CHECK(recognise({python, "train.py"}, "/", env).family == MpiFamily::none);
    CHECK(recognise({python, "train.py"}, "/", env).interpreter);
    CHECK(recognise({"sh", "-c", "exec " + python + " train.py"}, "/", env).interpreter);
    CHECK(recognise({folder.put("job", "#!/bin/sh\nexec " + python + " train.py\n")}, "/", env).interpreter);
    const auto shim = folder.put("shims/python3", "#!/usr/bin/env bash\nexec pyenv exec python3 \"$@\"\n");
    CHECK(recognise({shim, "train.py"}, "/", env).interpreter);
    CHECK_FALSE(recognise({"/bin/true"}, "/", env).interpreter);
    const std::string packages = "env/lib/python3.11/site-packages/mpi4py/";
    const auto extension = folder.put(packages + "MPI.cpython-311.so", elf({"libc.so.6"}));
    CHECK(recognise({"python3", "train.py"}, "/", env).family == MpiFamily::none);
    folder.put(packages + "MPI.cpython-311.so", elf({"libmpi.so.40"}));
    CHECK(recognise({"python3", "train.py"}, "/", env).family == MpiFamily::open_mpi);
    CHECK(recognise({folder.put("train", "#!/usr/bin/env python3\n")}, "/", env).family ==
          MpiFamily::open_mpi);
    std::filesystem::remove(extension);
    folder.put("home/.local/lib/python3.11/site-packages/mpi4py/MPI.cpython-311.so", elf({"libmpi.so.12"}));
    CHECK(recognise({"python3", "train.py"}, "/", env).family == MpiFamily::mpich);
  }

  TEST_CASE("wheels of mpi4py have an extension for each MPI, and take the first libmpi that is there") {
    const Folder folder;
    folder.put("env/bin/python3", elf({"libc.so.6"}));
    wire::EnvPairs env{{"PATH", folder.path + "/env/bin"}, {"HOME", folder.path + "/home"}};
    const std::string packages = "env/lib/python3.11/site-packages/mpi4py/";
    folder.put(packages + "MPI.mpich.cpython-311.so", elf({"libmpi.so.12"}));
    folder.put(packages + "MPI.openmpi.cpython-311.so", elf({"libmpi.so.40"}));
    const auto family = [&] { return recognise({"python3", "train.py"}, "/", env).family; };
    const auto theirs = folder.put("env/lib/openmpi/libpmix.so.2", elf({}));
    folder.put("env/lib/libmpi.so", "INPUT(libmpi.so.40)\n");  // what a linker reads
    const auto library = folder.put("env/lib/libmpi.so.40", elf({}, "$ORIGIN:$ORIGIN/openmpi"));
    CHECK(family() == MpiFamily::open_mpi);
    const auto found = pmix_libraries(recognise({"python3", "train.py"}, "/", env), env);
    REQUIRE_FALSE(found.empty());
    CHECK(std::filesystem::canonical(found.front()) == theirs);
    std::filesystem::remove(library);
    folder.put("env/lib/libmpi.so.12.5", elf({}));
    std::filesystem::remove(folder.path + "/env/lib/libmpi.so");
    std::filesystem::create_symlink("libmpi.so.12.5", folder.path + "/env/lib/libmpi.so");
    CHECK(family() == MpiFamily::mpich);
    env.emplace_back("MPI4PY_LIBMPI", folder.put("mine/libmpi.so.40", elf({})));
    CHECK(family() == MpiFamily::open_mpi);
  }

  TEST_CASE("the libpmix beside the program's own libmpi comes first") {
    const Folder folder;
    folder.put("lib/libmpi.so.40", elf({"libopen-pal.so.80"}, "$ORIGIN/../more"));
    const auto theirs = folder.put("more/libpmix.so.2", elf({}));
    const auto program =
        recognise({folder.put("solver", elf({"libmpi.so.40"}, folder.path + "/lib"))}, "/", {});
    REQUIRE(program.family == MpiFamily::open_mpi);
    const auto found = pmix_libraries(program, {});
    REQUIRE_FALSE(found.empty());
    CHECK(std::filesystem::canonical(found.front()) == theirs);
    const auto beside = folder.put("lib/libpmix.so.2", elf({}));
    CHECK(pmix_libraries(program, {}).front() == beside);
    CHECK(open_mpi_prefix(program).empty());
    folder.put("share/openmpi/help-mca-var.txt", "");
    CHECK(open_mpi_prefix(program) == folder.path);
  }
}

}  // namespace trainrun::agent
