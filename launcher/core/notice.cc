#include "launcher/core/notice.h"

namespace trainrun::core {

TRAINRUN_COMPILED_HERE(Notice)

std::string_view to_string(EndAnswer answer) {
  switch (answer) {
    case EndAnswer::ends_ranks:
      return "ends ranks";
    case EndAnswer::ends_job:
      return "ends job";
    case EndAnswer::ends_already:
      return "ends already";
    case EndAnswer::kills:
      return "kills";
    case EndAnswer::waits_for_output:
      return "waits for output";
  }
  return {};
}

std::string_view to_string(Follows follows) {
  switch (follows) {
    case Follows::tries_again:
      return "tries again";
    case Follows::all_start_anew:
      return "all start anew";
    case Follows::all_go_on:
      return "all go on";
    case Follows::others_go_on:
      return "others go on";
    case Follows::others_wait:
      return "others wait";
  }
  return {};
}

std::string_view to_string(AwaitedHost::What what) {
  switch (what) {
    case AwaitedHost::What::dialled:
      return "dialled";
    case AwaitedHost::What::left:
      return "left";
    case AwaitedHost::What::rests:
      return "rests";
    case AwaitedHost::What::retried:
      return "retried";
  }
  return {};
}

std::string_view to_string(MpiService service) {
  switch (service) {
    case MpiService::none:
      return "none";
    case MpiService::pmi:
      return "pmi";
    case MpiService::pmix:
      return "pmix";
  }
  return {};
}

bool is_detail(const Notice& notice) {
  return std::holds_alternative<notice::PhaseChanged>(notice) ||
         std::holds_alternative<notice::MpiFound>(notice) || std::holds_alternative<notice::Ignored>(notice);
}

}  // namespace trainrun::core
