"""The house's rules that a program can check, as data. tests/lint/lint.py applies them; its self-test breaks each."""
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Rule:
    name: str
    why: str
    pattern: str  # searched in each line of code, comments and string contents aside (include lines whole)
    where: tuple  # path patterns (fnmatch; * also crosses folders) the rule applies to
    allowed: tuple = ()  # path patterns that may
    bad: str = ""  # a line that must be reported, for the self-test
    good: str = ""  # a line that must not be
    languages: tuple = field(default=("h", "cc", "hpp", "c", "cu"))


SOURCES = ("cli/*", "host-discovery/*", "launcher/*", "rendezvous/*", "comm/*", "examples/*", "tests/unit/*",
           "tests/sim/*", "tests/fuzz/*", "tests/bench/*")
PURE = ("host-discovery/*", "launcher/core/*", "launcher/wire/*")
PRODUCT = ("cli/*", "host-discovery/*", "launcher/*", "rendezvous/*")

# POSIX headers that open, read or ask; <signal.h>, <sys/wait.h> and <errno.h> only name numbers.
POSIX_IO = (r'#\s*include\s*<(unistd\.h|fcntl\.h|poll\.h|netdb\.h|ifaddrs\.h|dirent\.h|pwd\.h|spawn\.h|termios\.h|'
            r'arpa/[^>]*|netinet/[^>]*|net/[^>]*|sys/(?!wait\.h|types\.h)[^>]*|fstream|filesystem|iostream)>')

RULES = (
    Rule("pure-no-asio", "brain, wire and host discovery are tested without a loop",
         r"#\s*include\s*[<\"]boost/(asio|process)", PURE,
         bad="#include <boost/asio.hpp>", good='#include "launcher/base/error.h"'),
    Rule("pure-no-posix-io", "pure folders open nothing: what they need is passed in", POSIX_IO, PURE,
         allowed=("host-discovery/address.cc",),  # inet_pton and inet_ntop read and write text
         bad="#include <sys/socket.h>", good="#include <sys/wait.h>"),
    Rule("pure-no-clock", "pure folders get `now` as an argument, so that a manual clock can drive them",
         r"::now\s*\(|\btime\s*\(\s*(NULL|nullptr|0)\s*\)|\bclock_gettime\s*\(|\bgettimeofday\s*\(", PURE,
         bad="auto t = Clock::now();", good="step(state, event, now);"),
    Rule("pure-no-logging", "pure folders say what happened in their results",
         r'#\s*include\s*"launcher/base/log\.h"', PURE,
         bad='#include "launcher/base/log.h"', good='#include "launcher/base/time.h"'),
    Rule("getenv", "the environment is read at the door alone, so that every value has one origin",
         r"\b(secure_)?getenv\s*\(|\bextern\s+char\s*\*\*\s*environ\b", PRODUCT + ("comm/*",),
         allowed=("cli/main.cc", "cli/environment.cc", "launcher/agent/host_facts.cc", "launcher/output/terminal.cc",
                  "rendezvous/standalone.cc", "launcher/transport/key_agent.cc", "launcher/transport/openssh_dial.cc",
                  "comm/*"),
         bad='const char* home = std::getenv("HOME");', good="env.find(name);"),
    Rule("fmt-is-compiled-once", "fmt's implementation costs every file that has it five seconds of compiling",
         r"#\s*include\s*<fmt/format-inl|FMT_HEADER_ONLY", SOURCES, allowed=("launcher/base/fmt.cc",),
         bad="#include <fmt/format-inl.h>", good="#include <fmt/format.h>"),
    Rule("toml-in-one-file", "file:line:column of errors is made in one place",
         r"#\s*include\s*<toml", SOURCES, allowed=("cli/config_file.cc",),
         bad="#include <toml++/toml.h>", good="#include <string>"),
    Rule("yaml-in-one-file", "horovodrun's configuration file is all that is YAML here",
         r"#\s*include\s*<yaml|\byaml_(parser|document|node)_", SOURCES, allowed=("cli/horovod_config.cc",),
         bad="#include <yaml.h>", good='#include "cli/horovod_config.h"'),
    Rule("cli11-in-one-file", "it costs seconds to compile, and one place knows what it does wrongly",
         r"#\s*include\s*<CLI\b|\bCLI::", SOURCES, allowed=("cli/parse.cc",),
         bad="#include <CLI/CLI.hpp>", good='#include "cli/parse.h"'),
    Rule("libssh-in-its-files", "one place knows libssh's rules of threads",
         r"#\s*include\s*<libssh", SOURCES, allowed=("launcher/transport/ssh_*", "tests/unit/transport/ssh_*"),
         bad="#include <libssh/libssh.h>", good="#include <string>"),
    Rule("json-in-its-files", "the JSON library costs seconds to compile",
         r"#\s*include\s*<nlohmann", SOURCES,
         allowed=("cli/dry_run*", "comm/host_report.cc", "host-discovery/script_json.cc", "launcher/output/recorded_error.cc",
                 "launcher/control/protocol.cc", "launcher/control/reply_fields.h", "launcher/control/world_view.cc",
                 "launcher/output/event_line.cc", "launcher/output/host_check.cc",
                 "tests/unit/*"),
         bad="#include <nlohmann/json.hpp>", good="#include <string>"),
    Rule("sodium-in-its-files", "cryptography has one door, and one for the dialects of others",
         r"#\s*include\s*<sodium", SOURCES, allowed=("rendezvous/secure_channel.*", "rendezvous/digest.cc"),
         bad="#include <sodium.h>", good="#include <string>"),
    Rule("collectives-in-comm", "Gloo, NCCL and CUDA are named in comm alone: the launcher works without them",
         r"#\s*include\s*<(gloo|nccl|cuda|nvml)", SOURCES, allowed=("comm/*", "tests/unit/comm/*", "tests/workers/horovod_mesh.cc", "tests/bench/plain_gloo.cc"),
         bad="#include <gloo/context.h>", good="#include <string>"),
    Rule("asio-in-its-files", "Asio costs 2.6 s a translation unit, and only the shell has a loop",
         r"#\s*include\s*<boost/(asio|process)", SOURCES,
         allowed=("launcher/io/*", "launcher/*.cc", "rendezvous/tcp_*", "rendezvous/standalone.cc", "tests/bench/scale/*", "tests/unit/io/*",
                 "tests/unit/agent/*", "tests/unit/discovery/*", "tests/unit/session/*", "tests/unit/transport/*"),
         bad="#include <boost/asio/ip/tcp.hpp>", good="#include <string>"),
    Rule("direction-base", "base is the ground floor", r'#\s*include\s*"(?!launcher/base/)', ("launcher/base/*",),
         bad='#include "launcher/wire/frame.h"', good='#include "launcher/base/id.h"'),
    Rule("direction-wire", "wire knows base alone", r'#\s*include\s*"(?!launcher/(base|wire)/)', ("launcher/wire/*",),
         bad='#include "launcher/core/placement.h"', good='#include "launcher/wire/codec.h"'),
    Rule("direction-core", "the brain knows wire, base and the nouns of hosts",
         r'#\s*include\s*"(?!launcher/(base|wire|core)/|host-discovery/)',
         ("launcher/core/*",),
         bad='#include "launcher/transport/transport.h"', good='#include "host-discovery/host.h"'),
    Rule("direction-hosts", "host discovery knows base alone",
         r'#\s*include\s*"(?!launcher/base/|host-discovery/)', ("host-discovery/*",),
         bad='#include "launcher/core/job_spec.h"', good='#include "host-discovery/host.h"'),
    Rule("direction-io", "io knows base and wire", r'#\s*include\s*"(?!launcher/(base|wire|io)/)', ("launcher/io/*",),
         bad='#include "launcher/agent/agent.h"', good='#include "launcher/io/loop.h"'),
    Rule("direction-control", "control carries commands; what they mean is the brain's business",
         r'#\s*include\s*"(?!launcher/(base|io|control)/|host-discovery/)', ("launcher/control/*",),
         bad='#include "launcher/core/job_spec.h"', good='#include "launcher/io/loop.h"'),
    Rule("direction-discovery", "it asks for hosts, and knows no job, agent or transport",
         r'#\s*include\s*"(?!host-discovery/|launcher/(base|io|discovery)/|launcher/core/job_spec\.h)',
         ("launcher/discovery/*",),
         bad='#include "launcher/core/job_machine.h"', good='#include "launcher/core/job_spec.h"'),
    Rule("direction-agent", "the agent is small and static: base, wire, io and itself",
         r'#\s*include\s*"(?!launcher/(base|wire|io|agent)/)', ("launcher/agent/*",),
         bad='#include "launcher/transport/transport.h"', good='#include "launcher/wire/frame.h"'),
    Rule("direction-comm", "comm is a library of workers: it knows the rendezvous client, never launcher or cli",
         r'#\s*include\s*"(cli/|launcher/(?!base/)|rendezvous/(?!client|job_key|messages|protocol|secure_channel))',
         ("comm/*",),
         bad='#include "launcher/io/loop.h"', good='#include "rendezvous/client.h"'),
    Rule("direction-rendezvous", "the table and its adapters do not know who starts workers",
         r'#\s*include\s*"(cli/|comm/|launcher/(?!base/|wire/|io/))', ("rendezvous/*",),
         bad='#include "launcher/core/job_spec.h"', good='#include "launcher/io/loop.h"'),
    Rule("direction-launcher", "cli calls launcher, never the other way",
         r'#\s*include\s*"(cli/|comm/)', ("launcher/*",),
         bad='#include "cli/options.h"', good='#include "launcher/base/exit_code.h"'),
    Rule("no-coroutines", "g++ 12.2 miscompiles them (launcher/decisions/0001)", r"\bco_(await|yield|return)\b", SOURCES,
         bad="co_await f();", good="f();"),
    Rule("no-system", "no shell in the way: programs are started from an argument list",
         r"(?<![\w.:>])(std::)?(system|popen)\s*\(", PRODUCT,
         bad="system(command);", good="file_system(x);"),
    Rule("no-sleep-in-tests", "a test waits for an event with a deadline",
         r"\b(sleep_for|sleep_until|usleep|nanosleep|sleep)\s*\(", ("tests/*",), allowed=("tests/workers/*", "tests/unit/transport/local_sshd.cc"),
         bad="std::this_thread::sleep_for(x);", good="wait_for(x);", languages=("h", "cc", "hpp", "c", "py")),
    Rule("pragma-once", "one way to guard a header", r"#\s*ifndef\s+\w+_H_?\s*$", SOURCES,
         allowed=("comm/trainrun_comm.h",),
         bad="#ifndef TRAINRUN_X_H", good="#pragma once"),
)

# Searched in whole lines, comments included, of every text file.
FORBIDDEN_TEXT = (
    (r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b", "an unfinished thought is finished or filed, not committed"),
    (r"^(<{7}|>{7})( |$)", "a merge conflict was left"),
    (r"[ \t]+$", "a space at the end of a line"),
)
MAX_LINES = 400
TEXT_FILES = ("h", "cc", "hpp", "c", "cu", "py", "sh", "cmake", "txt", "S")
