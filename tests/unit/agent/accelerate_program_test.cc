#include "launcher/agent/accelerate_program.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/agent/temporary_folder.h"

namespace trainrun::agent {
namespace {

using Words = std::vector<std::string>;

struct Folder : TemporaryFolder {
  [[nodiscard]] bool unasked(const std::string& text, const Words& more = {}) const {
    put("train.py", text);
    Words words{"/venv/bin/python3", "train.py"};
    words.insert(words.end(), more.begin(), more.end());
    return leaves_cpu_unasked(words, path);
  }
};

const std::string accelerate = "from accelerate import Accelerator\na = Accelerator()\n";
const std::string trainer =
    "from transformers import Trainer, TrainingArguments\nTrainer(model=m, args=a).train()\n";

TEST_CASE("a script that names a place of its own to meet at") {
  const Folder folder;
  const auto names = [&](const std::string& text, const Words& before = {"python3"}) {
    folder.put("train.py", text);
    Words words = before;
    words.insert(words.end(), {"train.py", "--port", "MASTER_PORT"});
    return names_a_meeting(words, folder.path);
  };
  CHECK(names("os.environ['MASTER_PORT'] = '12355'\n"));
  CHECK(names("init_process_group('gloo', init_method='tcp://localhost:1', rank=r, world_size=2)\n", {}));
  CHECK_FALSE(names("init_process_group('gloo')\n"));
  CHECK_FALSE(names("MASTER_PORT", {"sh"}));
  CHECK_FALSE(names_a_meeting({"python3", "-c", "MASTER_PORT"}, folder.path));
  CHECK_FALSE(names_a_meeting({}, folder.path));
}

TEST_CASE("a script of Accelerate's or Trainer's that says nothing of the CPU") {
  const Folder folder;
  CHECK(folder.unasked(accelerate));
  CHECK(folder.unasked(trainer, {"--epochs", "3"}));
  CHECK(folder.unasked("from trl import SFTTrainer\nSFTTrainer(model).train()\n"));
  CHECK(folder.unasked(accelerate + "print(loss.cpu())\n"));
  CHECK(leaves_cpu_unasked({folder.path + "/train.py"}, "/"));
}

TEST_CASE("whoever says it, makes a world of its own, or may say it elsewhere, is not spoken of") {
  const Folder folder;
  CHECK_FALSE(folder.unasked("from accelerate import Accelerator\na = Accelerator(cpu=True)\n"));
  const std::string by_flag = "from accelerate import Accelerator\na = Accelerator(cpu=args.cpu)\n";
  CHECK(folder.unasked(by_flag));
  CHECK_FALSE(folder.unasked(by_flag, {"--cpu"}));
  CHECK_FALSE(folder.unasked(trainer + "TrainingArguments(use_cpu=True)\n"));
  CHECK_FALSE(folder.unasked(trainer + "dist.init_process_group('gloo')\n"));
  CHECK_FALSE(folder.unasked(trainer, {"--use_cpu", "True"}));
  CHECK_FALSE(folder.unasked(trainer, {"arguments.json"}));
  CHECK_FALSE(leaves_cpu_unasked({"/venv/bin/accelerate", "launch", "train.py"}, folder.path));
}

TEST_CASE("other programs are none of these") {
  const Folder folder;
  CHECK_FALSE(folder.unasked("import torch\n"));
  CHECK_FALSE(folder.unasked("from transformers import AutoModel\n"));
  CHECK_FALSE(folder.unasked("from lightning import Trainer\nTrainer().fit(m)\n"));
  CHECK_FALSE(folder.unasked("# from accelerate import Accelerator\nprint('Accelerator()')\n"));
  CHECK_FALSE(leaves_cpu_unasked({"/venv/bin/python3", "missing.py"}, folder.path));
  CHECK_FALSE(leaves_cpu_unasked({"./train"}, folder.path));
}

}  // namespace
}  // namespace trainrun::agent
