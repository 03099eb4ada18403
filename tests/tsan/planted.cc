// A race of our own, for tests/tsan/run.py --must-report: two threads write one number.
#include <thread>

namespace {

int planted = 0;

void write_often() {
  for (int i = 0; i < 1000; ++i) planted = planted + 1;
}

}  // namespace

int main() {
  std::thread one(write_often), other(write_often);
  one.join();
  other.join();
  return planted > 0 ? 0 : 1;
}
