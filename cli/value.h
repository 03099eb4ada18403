// The text of one setting, wherever it came from, turned into what it means. Pure.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "cli/argv.h"
#include "launcher/base/error.h"
#include "launcher/core/job_spec.h"

namespace trainrun::cli {

// Checks the text by the table: type, range, choices, length. The error begins with the setting's origin.
// Host lists are checked where they are read (host-discovery), the rest is complete.
Result<void> check_setting(const Setting& setting);

// What check_setting says of the value of a flag; nothing: it fits, or the flag is none of ours.
std::optional<Error> misfit(std::string_view spelled, const std::string& value);

// Each gives nothing for a text that check_setting refuses.
std::optional<bool> parse_bool(std::string_view text);  // true false yes no on off 1 0

struct MapWay {
  MapBy by = MapBy::slot;
  int count = 0;  // of ppr:N:PART; else 0
  HostPart part = HostPart::host;
};
std::optional<HostPart> parse_part(std::string_view text);  // "host", "node", "socket", "package", ...
std::optional<MapWay> parse_map_by(std::string_view text);

// "0,2-3" -> {0,2,3}: sorted, each once, at most a million.
std::optional<std::vector<int>> parse_ranks(std::string_view text);

std::optional<PortRange> parse_port_range(std::string_view text);  // "20000-20100", "20000"

struct StdinWish {
  StdinTo to = StdinTo::rank;
  int rank = 0;
};
std::optional<StdinWish> parse_stdin(std::string_view text);

std::optional<PreloadSpec> parse_preload(std::string_view text);  // "auto", "torch,torch.distributed"

// torchrun's: "3" for all, or "0:1,1:3" by local rank: 1 stdout, 2 stderr, 3 both; here
// "3,0:0" as well, which begins with what is so for all others.
std::optional<std::vector<Redirect>> parse_redirects(std::string_view text);

std::optional<std::uint16_t> parse_descriptor(std::string_view text);  // "fd:3"

// NAME and VALUE of `NAME=VALUE`; no value for a bare NAME or NAME*.
struct Export {
  std::string_view name;
  std::optional<std::string_view> value;
};
std::optional<Export> parse_export(std::string_view text);

bool is_variable_name(std::string_view text);

}  // namespace trainrun::cli
