// Runs every test, or those that an argument names: a part of their own name or of their file's.
#include <algorithm>
#include <chrono>
#include <exception>
#include <string_view>

#include "check.hpp"

int main(int count, char** arguments) {
  const std::vector<std::string_view> wanted(arguments + 1, arguments + count);
  const auto runs = [&](const Test& test) {
    return wanted.empty() || std::any_of(wanted.begin(), wanted.end(), [&](std::string_view part) {
             return std::string_view(test.name).find(part) != std::string_view::npos ||
                    std::string_view(test.file).find(part) != std::string_view::npos;
           });
  };
  std::vector<Test> all = tests();
  all.insert(all.end(), last_tests().begin(), last_tests().end());
  int passed = 0, failed = 0;
  for (const Test& test : all) {
    if (!runs(test)) continue;
    const int before = failures();
    const auto start = std::chrono::steady_clock::now();
    try {
      test.body();
    } catch (const std::exception& error) {
      ++failures();
      std::cerr << test.name << " threw: " << error.what() << '\n';
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    ++(failures() == before ? passed : failed);
    std::cout << (failures() == before ? "ok      " : "FAILED  ") << test.name << " (" << took.count() << " s)\n";
  }
  std::cout << passed << " passed, " << failed << " failed\n";
  return passed > 0 && failed == 0 ? 0 : 1;
}
