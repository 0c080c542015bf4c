#include <exception>

#include "check.hpp"

int main() {
  int failed = 0;
  for (const Test& test : tests()) {
    const int before = failures();
    try {
      test.body();
    } catch (const std::exception& error) {
      ++failures();
      std::cerr << test.name << " threw: " << error.what() << '\n';
    }
    if (failures() != before) ++failed;
    std::cout << (failures() == before ? "ok      " : "FAILED  ") << test.name << '\n';
  }
  std::cout << tests().size() - static_cast<std::size_t>(failed) << " passed, " << failed << " failed\n";
  return failed == 0 ? 0 : 1;
}
