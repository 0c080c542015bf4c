// Which instruction set the kernels run on: chosen once at import, never part of an answer.
#pragma once

#include <span>
#include <string_view>

namespace isinglass {

/// x86-64 psABI levels. `scalar` is the same kernels without vector code, the judge of the others.
/// On other machines `v2` is the portable vector code and the last level.
enum class Level { scalar, v2, v3, v4 };

std::string_view name(Level level);
std::span<const Level> available_levels();  // ascending, what this machine can run

Level level();  // in force; the highest available one until `force_level`
/// Forces a level by name. Throws std::invalid_argument for a name that is unknown or that this machine lacks.
void force_level(std::string_view level_name);

}  // namespace isinglass

/// Declares the accessor of a kernel table that cpp/src/kernels/*.cpp defines once per level.
#if defined(__x86_64__)
#define ISINGLASS_DECLARE_KERNELS(Table, table)                                            \
  namespace scalar {                                                                       \
  extern const Table table;                                                                \
  }                                                                                        \
  namespace v2 {                                                                           \
  extern const Table table;                                                                \
  }                                                                                        \
  namespace v3 {                                                                           \
  extern const Table table;                                                                \
  }                                                                                        \
  namespace v4 {                                                                           \
  extern const Table table;                                                                \
  }                                                                                        \
  inline const Table& table() {                                                            \
    static const Table* const at[] = {&scalar::table, &v2::table, &v3::table, &v4::table}; \
    return *at[static_cast<int>(level())];                                                 \
  }
#else
#define ISINGLASS_DECLARE_KERNELS(Table, table)                    \
  namespace scalar {                                               \
  extern const Table table;                                        \
  }                                                                \
  namespace v2 {                                                   \
  extern const Table table;                                        \
  }                                                                \
  inline const Table& table() {                                    \
    static const Table* const at[] = {&scalar::table, &v2::table}; \
    return *at[static_cast<int>(level())];                         \
  }
#endif
