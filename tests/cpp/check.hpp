// Plain checks for the C++ tests: nothing is downloaded, every failure names its line.
#pragma once

#include <functional>
#include <iostream>
#include <string>
#include <vector>

struct Test {
  const char* name;
  const char* file;
  std::function<void()> body;
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

/// Those that look at what the others left behind.
inline std::vector<Test>& last_tests() {
  static std::vector<Test> all;
  return all;
}

inline int& failures() {
  static int count = 0;
  return count;
}

struct Register {
  Register(std::vector<Test>& all, const char* name, const char* file, std::function<void()> body) {
    all.push_back({name, file, std::move(body)});
  }
};

#define TEST(name) REGISTERED_TEST(tests(), name)
#define LAST_TEST(name) REGISTERED_TEST(last_tests(), name)
#define REGISTERED_TEST(list, name)                                          \
  static void test_##name();                                                 \
  static const Register register_##name(list, #name, __FILE__, test_##name); \
  static void test_##name()

#define CHECK(condition)                                                                    \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      ++failures();                                                                         \
      std::cerr << __FILE__ << ':' << __LINE__ << ": CHECK(" << #condition << ") failed\n"; \
    }                                                                                       \
  } while (false)

#define CHECK_THROWS(expression, exception)                                                  \
  do {                                                                                       \
    bool thrown = false;                                                                     \
    try {                                                                                    \
      (void)(expression);                                                                    \
    } catch (const exception&) {                                                             \
      thrown = true;                                                                         \
    }                                                                                        \
    if (!thrown) {                                                                           \
      ++failures();                                                                          \
      std::cerr << __FILE__ << ':' << __LINE__ << ": " << #expression << " did not throw\n"; \
    }                                                                                        \
  } while (false)
