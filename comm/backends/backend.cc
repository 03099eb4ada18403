#include "comm/backends/backend.h"

#include <fmt/format.h>

namespace trainrun::comm {

const char* name_of(Call call) {
  switch (call) {
    case Call::allreduce:
      return "allreduce";
    case Call::broadcast:
      return "broadcast";
    case Call::allgather:
      return "allgather";
    case Call::barrier:
      return "barrier";
  }
  return "?";
}

std::string describe(const Descriptor& what) {
  std::string detail;
  if (what.call == Call::allreduce)
    detail = fmt::format("({} of {} {})", name_of(what.op), what.count, name_of(what.dtype));
  else if (what.call == Call::broadcast)
    detail = fmt::format("({} {} from rank {})", what.count, name_of(what.dtype), what.root);
  else if (what.call == Call::allgather)
    detail = fmt::format("({} {})", what.count, name_of(what.dtype));
  return fmt::format("{}{} as operation {}", name_of(what.call), detail, what.sequence);
}

}  // namespace trainrun::comm
