#include "launcher/transport/answers.h"

#include <mutex>
#include <utility>

namespace trainrun::transport {

struct Answers::Core {
  std::mutex mutex;
  io::Loop* loop = nullptr;  // null when closed; under the mutex
  Answers* owner = nullptr;  // of the loop's thread
};

Answers::Answers(io::Loop& loop) : core_(std::make_shared<Core>()), awake_(loop) {
  core_->loop = &loop;
  core_->owner = this;
}

Answers::~Answers() {
  const std::lock_guard lock(core_->mutex);
  core_->loop = nullptr;
  core_->owner = nullptr;
}

DialDone Answers::expect(DialDone done) {
  // A loop without anything to wait for would end while threads dial: any timer keeps it.
  if (++expected_ == 1) awake_.arm(io::Loop::now() + std::chrono::hours(24 * 365), [] {});
  return [core = core_, done = std::move(done)](Result<Dialled> result) {
    auto shared = std::make_shared<Result<Dialled>>(std::move(result));
    const std::lock_guard lock(core->mutex);
    if (core->loop == nullptr) return;
    core->loop->post([core, done, shared] {
      if (core->owner == nullptr) return;
      if (--core->owner->expected_ == 0) core->owner->awake_.disarm();
      done(std::move(*shared));
    });
  };
}

}  // namespace trainrun::transport
