#include "launcher/output/shown.h"

#include <algorithm>
#include <vector>

namespace trainrun::output {
namespace {

bool lacks(const std::vector<int>& wanted, std::uint32_t number) {
  return !wanted.empty() && std::find(wanted.begin(), wanted.end(), static_cast<int>(number)) == wanted.end();
}

}  // namespace

int max_ranks(const JobSpec& job) { return std::max(job.world_size(), job.elastic.max_np); }

Tag tag_of(const JobSpec& job) {
  return job.tag != Tag::automatic ? job.tag : (max_ranks(job) > 1 ? Tag::rank : Tag::none);
}

bool passes_bytes(const JobSpec& job) {
  return (max_ranks(job) == 1 || job.only_ranks.size() == 1) && tag_of(job) == Tag::none && !job.timestamp;
}

Hidden hidden_streams(const JobSpec& job, std::uint32_t rank, std::uint32_t local_rank) {
  if (lacks(job.only_ranks, rank) || lacks(job.only_local_ranks, local_rank)) return {true, true};
  Hidden hidden;
  for (const auto& redirect : job.redirects) {
    if (redirect.local_rank == static_cast<std::int32_t>(local_rank)) return {redirect.out, redirect.err};
    if (redirect.local_rank < 0) hidden = {redirect.out, redirect.err};
  }
  return hidden;
}

}  // namespace trainrun::output
