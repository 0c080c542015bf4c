#include "isinglass/survival.hpp"

#include <algorithm>
#include <array>

namespace isinglass {
namespace {

enum AsciiKind : std::uint8_t { kOther, kWordCharacter, kBlank, kPunctuation };

constexpr auto kAsciiKind = [] {
  std::array<std::uint8_t, 128> kind{};
  for (int c = '!'; c <= '~'; ++c) kind[c] = kPunctuation;
  for (int c = '0'; c <= '9'; ++c) kind[c] = kWordCharacter;
  for (int c = 'a'; c <= 'z'; ++c) kind[c] = kind[c - 'a' + 'A'] = kWordCharacter;
  for (int c : {' ', '\t', '\n', '\v', '\f', '\r', '\x1c', '\x1d', '\x1e', '\x1f'}) kind[c] = kBlank;
  return kind;
}();

std::uint8_t ascii_kind(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x80 ? kAsciiKind[byte] : static_cast<std::uint8_t>(kOther);
}

bool is_ascii_word(char c) { return ascii_kind(c) == kWordCharacter; }

bool is_article(std::string_view word) { return word == "a" || word == "an" || word == "the"; }

}  // namespace

void TokenNumbers::end_word(std::vector<std::int32_t>& numbers) {
  if (articles_ == Articles::word_boundaries && is_article(std::string_view(token_).substr(word_begin_))) {
    // A space takes its place, so what stands before it is a token of its own.
    token_.resize(word_begin_);
    if (!token_.empty()) add_token(token_, numbers);
    token_.clear();
  }
  word_begin_ = token_.size();
}

void TokenNumbers::end_token(std::vector<std::int32_t>& numbers) {
  end_word(numbers);
  if (!token_.empty() && !(articles_ == Articles::words && is_article(token_))) add_token(token_, numbers);
  token_.clear();
  word_begin_ = 0;
}

void TokenNumbers::add_text(std::string_view lowered, std::vector<std::int32_t>& numbers) {
  for (std::size_t at = 0; at < lowered.size();) {
    const std::size_t begin = at;
    std::uint8_t kind = kOther;
    if (const auto byte = static_cast<unsigned char>(lowered[at]); byte < 0x80) {
      kind = kAsciiKind[byte];
      do ++at;
      while (kind == kWordCharacter && at < lowered.size() && is_ascii_word(lowered[at]));
      if (kind == kWordCharacter && token_.empty()) {
        // Most tokens are one word, perhaps with punctuation behind it: they need not be put together.
        std::size_t end = at;
        while (end < lowered.size() && ascii_kind(lowered[end]) == kPunctuation) ++end;
        if (end == lowered.size() || ascii_kind(lowered[end]) == kBlank) {
          const std::string_view word = lowered.substr(begin, at - begin);
          if (!is_article(word)) add_token(word, numbers);
          at = end;
          continue;
        }
      }
    } else {
      const std::uint8_t properties = table_->properties(next_code_point(lowered, at));
      if ((properties & kSpace) != 0) kind = kBlank;
      if ((properties & kWord) != 0) kind = kWordCharacter;
    }
    switch (kind) {
      case kPunctuation:
        break;
      case kBlank:
        end_token(numbers);
        break;
      case kOther:
        end_word(numbers);
        token_.append(lowered.substr(begin, at - begin));
        word_begin_ = token_.size();
        break;
      default:
        token_.append(lowered.substr(begin, at - begin));
    }
  }
  end_token(numbers);
}

Standing find_run(std::span<const std::int32_t> context, std::span<const std::int64_t> ends,
                  std::span<const std::int32_t> run) {
  Standing standing = Standing::absent;
  if (run.empty()) return standing;
  auto snippet = ends.begin();
  for (auto at = context.begin(); context.end() - at >= static_cast<std::ptrdiff_t>(run.size()); ++at) {
    at = std::find(at, context.end() - static_cast<std::ptrdiff_t>(run.size() - 1), run.front());
    if (context.end() - at < static_cast<std::ptrdiff_t>(run.size())) break;
    if (!std::equal(run.begin(), run.end(), at)) continue;
    const std::int64_t begin = at - context.begin();
    while (*snippet <= begin) ++snippet;
    if (begin + static_cast<std::int64_t>(run.size()) <= *snippet) return Standing::within;
    standing = Standing::across;
  }
  return standing;
}

}  // namespace isinglass
