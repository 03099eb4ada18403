// Brings the ends of dials from any thread to the loop's, and keeps the loop running until the last has come.
#pragma once

#include <memory>

#include "launcher/io/loop.h"
#include "launcher/transport/transport.h"

namespace trainrun::transport {

class Answers {
 public:
  explicit Answers(io::Loop& loop);
  ~Answers();  // on the loop's thread, as all but what expect() returns; nothing is delivered from then on
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  // A stand-in for `done` that may be called once, from any thread, at any time, also when this object is
  // gone.
  DialDone expect(DialDone done);

 private:
  struct Core;
  std::shared_ptr<Core> core_;
  io::Timer awake_;
  std::size_t expected_ = 0;
};

}  // namespace trainrun::transport
