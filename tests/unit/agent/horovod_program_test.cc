#include "launcher/agent/horovod_program.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "launcher/agent/python_imports.h"
#include "tests/unit/agent/elf_bytes.h"
#include "tests/unit/agent/temporary_folder.h"

namespace trainrun::agent {
namespace {

using Words = std::vector<std::string>;

struct Folder : TemporaryFolder {
  void write(const std::string& name, const std::string& text) const { put(name, text, 0755); }
  [[nodiscard]] bool is_horovod(const Words& words) const {
    return uses_horovod(words, path, {{"PATH", path + "/venv/bin:/usr/bin:/bin"}, {"HOME", path}});
  }
};

TEST_CASE("modules that lines import") {
  CHECK(imported_by("import os, sys\nimport horovod.torch as hvd # now\n") ==
        Words{"os", "sys", "horovod.torch"});
  CHECK(imported_by("  from horovod import torch as hvd") == Words{"horovod.torch"});
  CHECK(imported_by("from . import net\nfrom .data import load, save") ==
        Words{".net", ".data.load", ".data.save"});
  CHECK(imported_by("import a; import b") == Words{"a", "b"});
  CHECK(imported_by("x = 'from'\nimport\nfrom a\n# import horovod\nimportant horovod") == Words{});
}

TEST_CASE("modules that are imported in a line with others, over several lines, or by a call") {
  CHECK(imported_by("try: import horovod.torch as hvd\nexcept ImportError: hvd = None") ==
        Words{"horovod.torch"});
  CHECK(imported_by("if x[1:2]:from a import b, c as d, e") == Words{"a.b", "a.c", "a.e"});
  CHECK(imported_by("import torch, \\\n  horovod.torch as hvd\nx = 1 + \\\r\n  2") ==
        Words{"torch", "horovod.torch"});
  CHECK(imported_by(
            "from horovod import (  # all\n  torch as hvd,\n  keras,\n)\nfrom a import (b)\nimport c") ==
        Words{"horovod.torch", "horovod.keras", "a.b", "c"});
  CHECK(imported_by("hvd = importlib.import_module('horovod.torch')") == Words{"horovod.torch"});
  CHECK(imported_by("hvd = __import__(\n  \"horovod.torch\", fromlist=['x'])") == Words{"horovod.torch"});
  CHECK(imported_by("# __import__('a')\nimport_module(name)\n__import__('')\n__import__('a") == Words{});
  CHECK(imported_by("To use it: import horovod\nprint('try: import horovod')\nfrom a import (\nb") ==
        Words{"a.b"});
}

TEST_CASE("a package, a folder, an archive and a script of any name are looked at as Python runs them") {
  const Folder folder;
  folder.write("venv/bin/python3", "");
  folder.write("trainer/__init__.py", "");
  folder.write("trainer/__main__.py", "import horovod.torch as hvd\n");
  folder.write("other/__main__.py", "import torch\n");
  folder.write("train", "import horovod.torch as hvd\n");
  CHECK(folder.is_horovod({"python3", "-m", "trainer"}));
  CHECK(folder.is_horovod({"python3", "trainer"}));
  CHECK(folder.is_horovod({"python3", "-u", "-W", "ignore", "train", "--lr", "1"}));
  CHECK_FALSE(folder.is_horovod({"python3", "-m", "other"}));
  CHECK_FALSE(folder.is_horovod({"python3", "other", "train"}));
  folder.write("venv/lib/python3.11/site-packages/horovod/__init__.py", "");
  folder.write("app.pyz", "PK\x03\x04");
  CHECK(folder.is_horovod({"python3", "app.pyz"}));
  folder.write("begun.pyz", "#!/usr/bin/env python3\nPK\x03\x04");  // as zipapp makes it
  CHECK(folder.is_horovod({"python3", "begun.pyz"}));
  folder.write("text.pyz", "#!/usr/bin/env python3\nprint('PK')\n");
  CHECK_FALSE(folder.is_horovod({"python3", "text.pyz"}));
}

TEST_CASE("a script of Horovod's is known by its imports") {
  const Folder folder;
  folder.write("venv/bin/python3", "");
  folder.write("train.py", "import os\n\nimport horovod.torch as hvd\nhvd.init()\n");
  folder.write("plain.py", "import torch  # no horovod\n");
  CHECK(folder.is_horovod({"python3", "train.py", "--epochs", "3"}));
  CHECK(folder.is_horovod({"python3", "-u", folder.path + "/train.py"}));
  CHECK_FALSE(folder.is_horovod({"python3", "plain.py"}));
  CHECK_FALSE(folder.is_horovod({"python3", "plain.py", "train.py"}));
  CHECK_FALSE(folder.is_horovod({"python3", "missing.py"}));
  CHECK_FALSE(folder.is_horovod({"missing", "train.py"}));
  CHECK(folder.is_horovod({"python3", "-c", "import horovod.torch as hvd; hvd.init()"}));
  CHECK_FALSE(folder.is_horovod({"python3", "-c", "print('horovod')"}));
  folder.write("itself", "#!/usr/bin/env python3\nfrom horovod import torch\n");
  CHECK(folder.is_horovod({"./itself"}));
  folder.write("call.py", "hvd = importlib.import_module('horovod.torch')\n");
  CHECK(folder.is_horovod({"python3", "call.py"}));
}

TEST_CASE("modules beside the script are followed, packages of others are not") {
  const Folder folder;
  folder.write("venv/bin/python3", "");
  folder.write("train.py", "from project.parallel import world\n");
  folder.write("project/__init__.py", "");
  folder.write("project/parallel/__init__.py", "from .world import size\n");
  folder.write("project/parallel/world.py", "import train\n");
  CHECK_FALSE(folder.is_horovod({"python3", "train.py"}));
  folder.write("project/parallel/world.py",
               "try:\n  import horovod.torch as hvd\nexcept ImportError:\n  pass\n");
  CHECK(folder.is_horovod({"python3", "train.py"}));
  CHECK(folder.is_horovod({"python3", "-m", "project.parallel.world"}));
  CHECK_FALSE(folder.is_horovod({"python3", "-m", "project.other"}));
}

TEST_CASE("where the text only names it, or hides what runs, the interpreter's own packages decide") {
  const Folder folder;
  folder.write("venv/bin/python3", "");
  folder.write("lazy.py", "backend = 'horovod'\nimportlib.import_module(backend + '.torch')\n");
  folder.write("plain.py", "import torch\n");
  folder.write("job.sh", "#!/bin/sh\ncd / && exec python3 $SCRIPT\n");
  folder.write("inner.sh", "#!/bin/sh\nexec mpirun -np 2 python3 $SCRIPT\n");
  folder.write("chosen.py", "import json, importlib\nimportlib.import_module(json.load(open('c'))['b'])\n");
  folder.write("package/user.py", "__import__('backends.' + name)\n");
  folder.write("deep.py", "from package.user import go\n");
  const Words hidden[] = {{"python3", "lazy.py"},
                          {"python3", "chosen.py"},
                          {"python3", "deep.py"},
                          {"./job.sh"},
                          {"sh", "-c", "exec python3 $SCRIPT"}};
  for (const auto& words : hidden) CHECK_FALSE(folder.is_horovod(words));
  folder.write("venv/lib/python3.11/site-packages/horovod/__init__.py", "");
  for (const auto& words : hidden) CHECK(folder.is_horovod(words));
  CHECK_FALSE(folder.is_horovod({"python3", "plain.py"}));
  CHECK_FALSE(folder.is_horovod({"./inner.sh"}));
}

TEST_CASE("a script that a shell is told to run is looked into") {
  const Folder folder;
  folder.write("venv/bin/python3", "");
  folder.write("train.py", "import horovod.torch\n");
  folder.write("plain.py", "import torch\n");
  folder.write("go.sh", "exec python3 train.py\n");
  folder.write("outer.sh", "#!/bin/sh\nset -e\nsh go.sh\n");
  folder.write("plain.sh", "#!/bin/sh\nexec python3 plain.py\n");
  for (const auto& words :
       {Words{"sh", "go.sh"}, Words{"bash", "-e", "go.sh", "3"}, Words{"sh", "-c", "sh go.sh"},
        Words{"./outer.sh"}, Words{"bash", "outer.sh"}, Words{"./go.sh"}})
    CHECK(folder.is_horovod(words));
  CHECK_FALSE(folder.is_horovod({"sh", "plain.sh"}));
}

TEST_CASE("modules in PYTHONPATH are followed") {
  const Folder folder;
  folder.write("venv/bin/python3", "");
  folder.write("ours/mylib/__init__.py", "import horovod.torch as hvd\n");
  folder.write("train.py", "import mylib\n");
  CHECK_FALSE(folder.is_horovod({"python3", "train.py"}));
  CHECK(uses_horovod({"python3", "train.py"}, folder.path,
                     {{"PATH", folder.path + "/venv/bin"}, {"PYTHONPATH", folder.path + "/ours"}}));
}

TEST_CASE("what a shell or a tool starts is looked at as well") {
  const Folder folder;
  folder.write("venv/bin/python3", "");
  folder.write("venv/bin/numactl", "");
  folder.write("train.py", "import horovod.torch\n");
  folder.write("run.sh", "#!/bin/sh\nset -e\nexec python3 train.py \"$@\"\n");
  CHECK(folder.is_horovod({"./run.sh"}));
  CHECK(folder.is_horovod({"sh", "-c", "cd . && python3 train.py"}));
  CHECK(folder.is_horovod({"numactl", "-m", "0", "python3", "train.py"}));
  CHECK_FALSE(folder.is_horovod({"sh", "-c", "mpirun -np 2 python3 train.py"}));
}

TEST_CASE("a program that is linked with Horovod is one of it") {
  const Folder folder;
  folder.write("train", elf({"libc.so.6", "mpi_lib_v2.cpython-311-x86_64-linux-gnu.so"}));
  folder.write("other", elf({"libc.so.6", "libmpi.so.40"}));
  CHECK(folder.is_horovod({"./train", "--epochs", "3"}));
  CHECK(folder.is_horovod({"sh", "-c", "exec ./train"}));
  CHECK_FALSE(folder.is_horovod({"./other"}));
}

TEST_CASE("ranks of a Horovod that was built without Gloo meet as MPI's do") {
  const Folder folder;
  folder.write("venv/bin/python3", "");
  folder.write("train.py", "import horovod.torch\n");
  const auto packages = "venv/lib/python3.11/site-packages";
  const auto extension = packages + std::string("/horovod/torch/mpi_lib_v2.cpython-311-x86_64-linux-gnu.so");
  folder.write(extension, "HOROVOD_MPI_THREADS_DISABLE");
  CHECK_FALSE(folder.is_horovod({"python3", "train.py"}));
  CHECK(horovods_of_mpi_alone(folder.path + "/" + packages) == Words{folder.path + "/" + extension});
  folder.write(extension, "HOROVOD_MPI_THREADS_DISABLE HOROVOD_GLOO_RENDEZVOUS_ADDR");
  CHECK(folder.is_horovod({"python3", "train.py"}));
  CHECK(horovods_of_mpi_alone(folder.path + "/" + packages).empty());
}

}  // namespace
}  // namespace trainrun::agent
