#include "launcher/core/shown_words.h"

#include <doctest/doctest.h>

using namespace trainrun::core;

TEST_SUITE("core.shown_words") {
  TEST_CASE("a line of them can be pasted") {
    CHECK(shown_line({"trainrun", "-np", "2", "sh", "-c", "echo $A; it's", ""}) ==
          R"(trainrun -np 2 sh -c 'echo $A; it'\''s' '')");
    CHECK(shown_line({"x", "--api-key=a", "--token", "b"}) == "x --api-key=<redacted> --token <redacted>");
    CHECK(shown_line({"curl", "-H", "Authorization: Bearer hunter2"}) ==
          "curl -H 'Authorization: Bearer <redacted>'");
  }

  TEST_CASE("a variable's value is judged by its name and by its shape") {
    CHECK(shown_value("API_KEY", "x") == "<redacted>");
    CHECK(shown_value("API_KEY", "").empty());
    CHECK(shown_value("HUB", "sk-proj-abc0123456789_abcdefghi") == "<redacted>");
    CHECK(shown_value("URL", "https://me:hunter2@host/x") == "<redacted>");
    CHECK(shown_value("PATH", "/usr/bin:/opt/hf_models/bin") == "/usr/bin:/opt/hf_models/bin");
  }

  TEST_CASE("what an option names as a credential is not shown") {
    const std::vector<std::string> shown = {
        "./train", "--api-key", "<redacted>", "--password=<redacted>", "--max-tokens", "512", "--lr", "0.1"};
    CHECK(shown_words({"./train", "--api-key", "hunter2", "--password=hunter3", "--max-tokens", "512", "--lr",
                       "0.1"}) == shown);
  }

  TEST_CASE("nor is a password of -u, of --pwd, or of a dotted name") {
    CHECK(shown_line(
              {"./a", "--pwd", "hunter2", "--config.wandb.key=hunter2", "--cfg.db.password", "hunter2"}) ==
          "./a --pwd <redacted> --config.wandb.key=<redacted> --cfg.db.password <redacted>");
    CHECK(shown_line({"curl", "-u", "me:hunter2", "--user", "me"}) == "curl -u me:<redacted> --user me");
    CHECK(shown_line({"curl", "-ume:hunter2", "-u1000:1000", "-u"}) == "curl -ume:<redacted> -u1000:1000 -u");
    CHECK(shown_line({"curl", "-u", "ghp_0123456789abcdefghij0123456789abcdef"}) == "curl -u <redacted>");
    CHECK(shown_line({"docker", "run", "-u", "1000:1000", "PWD=/x"}) == "docker run -u 1000:1000 PWD=/x");
  }

  TEST_CASE("nor is one in the middle of a word, or one that looks like a token") {
    const std::pair<std::string, std::string> rows[] = {
        {"X-Api-Key: hunter2", "X-Api-Key: <redacted>"},
        {R"({"api_key": "hunter2", "lr": 3})", R"({"api_key": "<redacted>", "lr": 3})"},
        {"--opt=db_password=hunter2", "--opt=db_password=<redacted>"},
        {"Server=x;Password=hunter2;", "Server=x;Password=<redacted>;"},
        {"Authorization: Bearer hunter2hunter", "Authorization: Bearer <redacted>"},
        {"Authorization: Basic aHVudGVyMg==", "Authorization: Basic <redacted>"},
        {"wandb.api_key=hunter2", "wandb.api_key=<redacted>"},
        {"https://me:hunter2@host/x", "<redacted>"},
        {"hf_abcdefghij0123456789ABCDEFGHIJ0123", "<redacted>"},
        {"--hub=ghp_0123456789abcdefghij0123456789abcdef", "--hub=<redacted>"},
        {"sk-proj-abc0123456789_abcdefghi", "<redacted>"},
        {"AKIAIOSFODNN7EXAMPLE", "<redacted>"},
        {"nvapi-iK2ZWeqhFWCEPyYngFb51yBMWXaSCrUZ", "<redacted>"},
        {"--jwt-like=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "--jwt-like=<redacted>"},
        {"./t.sh --password hunter2", "./t.sh --password <redacted>"},
        {"python3 train.py --wandb-key 'hunter2' --lr 1", "python3 train.py --wandb-key '<redacted>' --lr 1"},
        {"./a --password hunter2 --token=abc", "./a --password <redacted> --token=<redacted>"},
        {"./a --lr=3 --password 'pa;ss word'", "./a --lr=3 --password '<redacted>'"},
        {"A=1 WANDB_API_KEY='abc;def&ghi' ./a", "A=1 WANDB_API_KEY='<redacted>' ./a"},
        {"./a --password\thunter2", "./a --password\t<redacted>"},
        {R"(printf %s "{\"password\": \"ab,cd\"}")", R"(printf %s "{\"password\": \"<redacted>\"}")"},
        {R"({"password":"ab,cd"})", R"({"password":"<redacted>"})"},
    };
    for (const auto& [word, shown] : rows) CHECK(shown_words({word}) == std::vector{shown});
  }

  TEST_CASE("what only looks alike is shown") {
    for (const std::string word :
         {"hf_transformer_training_script", "sk-learn-pipeline-of-mine",
          "/data/hf_model_0123456789abcdef.bin", "max_tokens: 512", "Basic training run",
          "print(sorted(x, key=len))", "file://tmp/x", "tokenizer=bpe", "https://host/x?y=1", "a:b", "lr=0.1",
          "", "./t.sh --max-tokens 512", "./t.sh --ask-password --lr 1", "the password is set"})
      CHECK(shown_words({word}) == std::vector{word});
  }
}
