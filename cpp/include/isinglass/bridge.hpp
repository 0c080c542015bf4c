// The bridge policy: sentences that match the question, and documents that vouch for each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "isinglass/text.hpp"

namespace isinglass {

inline constexpr std::size_t kNobody = std::numeric_limits<std::size_t>::max();

/// One passage of the question. Does not own; valid while the caller's strings live.
struct BridgePassage {
  std::size_t document = 0;
  bool opens = true;                         // its first sentence is its document's first
  std::span<const std::string_view> pieces;  // its sentences, cut by the caller; or
  std::optional<std::string_view> text;      // the text to cut
};

/// What is known of each sentence and document before any is chosen.
struct BridgeSentence {
  std::size_t passage = 0, position = 0;  // where it comes from: passage, sentence of that passage
  std::size_t document = 0;
  Span span;  // bytes in the passage's text; the whole piece where the caller cut
  std::size_t characters_before = 0, characters = 0;
  std::uint32_t tokens = 0;
  bool first = false;              // says who or what its document is
  double match = 0;                // Q: idf share of the question that it matches
  double names = 0;                // O: best match of a document that it names
  std::size_t leads_to = kNobody;  // that document
  double link = 0;  // best match of a sentence elsewhere with which it shares rare names, by their rarity
  std::size_t linked_from = kNobody;  // that sentence
  double cosine = 0;                  // max(0, cosine) with the question; 0 without vectors
};

struct BridgeDocument {
  double named = 0;                 // B: best match of a sentence elsewhere that names it
  std::size_t through = kNobody;    // that sentence
  double linked = 0;                // best link of its sentences
  std::size_t linked_at = kNobody;  // that sentence
  bool in_question = false;         // T: the question names it
};

/// How texts are read.
struct BridgeRules {
  WordRule words = WordRule::unicode;
  bool links = true;                      // whether shared names link sentences, and untitled documents get a name
  const CharacterTable* table = nullptr;  // may be null where all texts are ASCII
};

struct BridgeWeights {
  double match = 2, fresh = 4, named = 6, names = 2, title = 2, first = 1, length = 1, link = 2, linked = 1;
  double cosine = 4, redundancy = 0.8;  // without effect where there are no vectors
};

struct BridgeLimits {
  std::int64_t budget = 0;
  std::size_t max_items = std::numeric_limits<std::size_t>::max();
  std::span<const std::int64_t> costs;        // (n,) tokens, > 0; empty: those of the sentences
  std::span<const std::int64_t> title_costs;  // (documents,) paid with the first pick of a document; empty: free
  std::span<const std::size_t> pinned;        // taken before any choice
};

struct BridgeChoice {
  std::vector<std::size_t> order;  // chosen sentences, in order of choice
  std::vector<double> keys;        // of each when it was chosen
  std::vector<double> fresh;       // dQ of each when it was chosen
  std::int64_t cost = 0;
};

/// A question with its passages, prepared once for any number of budgets.
class Bridge {
 public:
  /// @param titles  one a document, empty: none
  Bridge(std::string_view question, std::span<const std::string_view> titles, std::span<const BridgePassage> passages,
         const BridgeRules& rules);

  /// Adds the terms of vectors: of the question, (d,), and of every sentence, (n, d). Finite, and of squares that a
  /// float holds.
  void embed(std::span<const float> question, std::span<const float> vectors);
  bool embedded() const { return !norms_.empty(); }

  const std::vector<BridgeSentence>& sentences() const { return sentences_; }
  const std::vector<BridgeDocument>& documents() const { return documents_; }

  /// For every sentence of every passage, in order: the sentence that stands for its text, itself as a rule, an earlier
  /// one where the same text was seen before, kNobody for one without words.
  const std::vector<std::size_t>& kept_as() const { return kept_as_; }

  std::span<const std::int64_t> title_tokens() const { return title_tokens_; }  // words of each document's title
  std::span<const double> idf() const { return idf_; }  // of the content terms of the question; 0 where none has it
  /// dQ: the idf share of the question that a sentence matches beyond what is covered.
  double fresh(std::size_t sentence, std::span<const std::uint64_t> covered) const;
  std::span<const std::uint64_t> terms(std::size_t sentence) const {
    return {bits_.data() + sentence * width_, width_};
  }

  /// max(0, cosine) of two sentences, which have vectors.
  double similarity(std::size_t a, std::size_t b) const;

  /// The key without dQ, without the length and without what is redundant.
  double worth(std::size_t sentence, const BridgeWeights& weights) const;

  /// The key of every sentence once `chosen` are taken.
  std::vector<double> keys(const BridgeWeights& weights, std::span<const std::size_t> chosen,
                           std::span<const std::int64_t> costs) const;

  /// Takes the highest key that fits, again and again. Throws std::invalid_argument if the pinned ones do not fit.
  BridgeChoice pick(const BridgeWeights& weights, const BridgeLimits& limits) const;

 private:
  friend class BridgeBuilder;

  double share(const std::uint64_t* bits) const;
  std::span<const float> vector(std::size_t i) const {
    const std::size_t d = vectors_.size() / norms_.size();
    return {vectors_.data() + i * d, d};
  }

  std::vector<BridgeSentence> sentences_;
  std::vector<BridgeDocument> documents_;
  std::vector<std::size_t> kept_as_;
  std::vector<std::int64_t> title_tokens_;
  std::size_t width_ = 0;            // 64-bit words of a set of question terms
  std::vector<std::uint64_t> bits_;  // (n, width)
  std::vector<double> idf_;          // (question terms,)
  double total_ = 0;
  std::vector<float> vectors_;  // (n, d), empty without vectors
  std::vector<double> norms_;   // (n,), of those
};

}  // namespace isinglass
