#include "launcher/transport/openssh.h"

#include <utility>

#include "launcher/transport/ssh_words.h"

namespace trainrun::transport {

OpensshTransport::OpensshTransport(io::Loop& loop, SshOptions options, const AgentImage& image,
                                   std::vector<std::string> places)
    : loop_(loop), shared_{std::move(options), image, std::move(places)}, answers_(loop), starter_(loop) {}

// A launcher that has closed its links lets them end by themselves; the rest is told to, then made to.
OpensshTransport::~OpensshTransport() {
  std::vector<std::unique_ptr<io::Child>> children;
  for (const auto& [number, dial] : dials_) {
    if (auto child = dial->give_up_child()) children.push_back(std::move(child));
  }
  dials_.clear();
  io::Child::end_all(std::move(children), milliseconds(200));
}

void OpensshTransport::dial(const Host& host, Duration within, DialDone done) {
  auto answer = answers_.expect(std::move(done));
  if (auto good = check_names(host); !good) {
    answer(tl::unexpected(good.error()));
    return;
  }
  const auto number = ++last_;
  dials_[number] =
      std::make_unique<OpensshDial>(loop_, shared_, DialJob{host, io::Loop::now(), within, std::move(answer)},
                                    [this, number] { dials_.erase(number); });
  waiting_.push_back(number);
  if (!starter_.armed()) start_next();
}

// One in a turn of the loop: to start a process takes a millisecond, and there may be a thousand hosts.
void OpensshTransport::start_next() {
  starter_.arm(io::Loop::now(), [this] {
    const auto number = waiting_.front();
    waiting_.pop_front();
    if (!waiting_.empty()) start_next();
    dials_.at(number)->start();
  });
}

}  // namespace trainrun::transport
