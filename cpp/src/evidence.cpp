#include "isinglass/evidence.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "isinglass/evidence_kernels.hpp"
#include "isinglass/random.hpp"

namespace isinglass {
namespace {

// Sums of the integer image stay below this: a field, a loss and a dual bound never leave 64 bits, with room to spare.
constexpr double kLargestSum = 0x1p58;

/// The largest power of two by which every sum that a search can form stays within range.
double scale_of(const EvidenceView& view) {
  double linear = 0, pair = 0, terms = 0;
  for (double g : view.linear) linear = std::max(linear, std::abs(g));
  for (std::size_t i = 0; i < view.n * view.n; ++i) pair = std::max(pair, std::abs(view.pairs[i]));
  for (double w : view.term_weights) terms += w;
  // A selection holds at most max_items items, each with a gain, all terms and a pair term with every other; the dual
  // lets multipliers grow to four times the largest pair term.
  const double items = static_cast<double>(view.max_items) + 1;
  const double sum = items * (linear + terms + 8 * items * pair) + terms;
  if (sum == 0) return 1;
  int exponent = 0;
  std::frexp(kLargestSum / sum, &exponent);
  return std::ldexp(1.0, exponent - 1);
}

}  // namespace

EvidenceProblem::EvidenceProblem(const EvidenceView& view)
    : view_(view), stride_((view.n + kEvidenceLanes - 1) / kEvidenceLanes * kEvidenceLanes) {
  const double scale = scale_of(view);
  granule_ = 1 / scale;
  double worst = 0;
  const auto integer = [&](double x) {
    const double scaled = x * scale, rounded = std::nearbyint(scaled);
    worst = std::max(worst, std::abs(scaled - rounded));
    return static_cast<std::int64_t>(rounded);
  };
  const std::size_t n = view.n;
  linear_.assign(stride_, 0);
  for (std::size_t i = 0; i < n; ++i) linear_[i] = integer(view.linear[i]);
  pairs_.assign(n * stride_, 0);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < n; ++k) pairs_[i * stride_ + k] = integer(view.pairs[i * n + k]);
  }
  term_weights_.resize(view.terms);
  term_rows_.assign(view.terms * stride_, 0);
  term_start_.assign(n + 1, 0);
  for (std::size_t t = 0; t < view.terms; ++t) {
    term_weights_[t] = integer(view.term_weights[t]);
    for (std::size_t i = 0; i < n; ++i) {
      if (view.covers[t * n + i] == 0) continue;
      term_rows_[t * stride_ + i] = term_weights_[t];
      ++term_start_[i + 1];
    }
  }
  std::partial_sum(term_start_.begin(), term_start_.end(), term_start_.begin());
  term_of_.resize(static_cast<std::size_t>(term_start_[n]));
  std::vector<std::int32_t> next(term_start_.begin(), term_start_.end() - 1);
  for (std::size_t t = 0; t < view.terms; ++t) {
    for (std::size_t i = 0; i < n; ++i) {
      if (view.covers[t * n + i] != 0) term_of_[static_cast<std::size_t>(next[i]++)] = static_cast<std::int32_t>(t);
    }
  }
  if (!view.costs.empty()) {
    costs_.assign(stride_, std::numeric_limits<std::int64_t>::max());
    std::copy(view.costs.begin(), view.costs.end(), costs_.begin());
  }
  const double k = static_cast<double>(view.max_items);
  max_error_ = worst * granule_ * (k + k * (k - 1) / 2 + static_cast<double>(view.terms));
}

double EvidenceProblem::evaluate(std::span<const std::int32_t> ascending) const {
  double value = 0;
  std::vector<std::uint8_t> covered(view_.terms, 0);
  for (std::size_t a = 0; a < ascending.size(); ++a) {
    const auto i = static_cast<std::size_t>(ascending[a]);
    value += view_.linear[i];
    for (std::size_t b = 0; b < a; ++b) value += view_.pairs[i * view_.n + static_cast<std::size_t>(ascending[b])];
    for (std::int32_t t : terms_of(i)) covered[static_cast<std::size_t>(t)] = 1;
  }
  for (std::size_t t = 0; t < view_.terms; ++t) value += covered[t] != 0 ? view_.term_weights[t] : 0.0;
  return value;
}

std::int64_t EvidenceProblem::integer_value(std::span<const std::int32_t> items) const {
  std::int64_t value = 0;
  std::vector<std::uint8_t> covered(view_.terms, 0);
  for (std::size_t a = 0; a < items.size(); ++a) {
    const auto i = static_cast<std::size_t>(items[a]);
    value += linear_[i];
    for (std::size_t b = 0; b < a; ++b) value += pairs_[i * stride_ + static_cast<std::size_t>(items[b])];
    for (std::int32_t t : terms_of(i)) {
      if (covered[static_cast<std::size_t>(t)] == 0) value += term_weights_[static_cast<std::size_t>(t)];
      covered[static_cast<std::size_t>(t)] = 1;
    }
  }
  return value;
}

bool EvidenceProblem::feasible(std::span<const std::int32_t> items) const {
  std::int64_t spent = 0;
  if (!costs_.empty()) {
    for (std::int32_t i : items) spent += costs_[static_cast<std::size_t>(i)];
  }
  return items.size() <= view_.max_items && spent <= view_.budget;
}

namespace {

/// The arrays of one walk.
class Walker {
 public:
  explicit Walker(const EvidenceProblem& problem)
      : problem_(problem),
        rows_(5 * problem.stride()),
        count_(problem.view().terms),
        chosen_(2 * problem.view().max_items + 2) {
    const std::size_t stride = problem.stride();
    walk_.n = problem.size();
    walk_.stride = stride;
    walk_.terms = problem.view().terms;
    walk_.max_items = problem.view().max_items;
    walk_.pairs = problem.all_pairs();
    walk_.term_rows = problem.term_rows();
    walk_.term_weights = problem.term_weights();
    walk_.term_start = problem.term_start();
    walk_.term_list = problem.term_list();
    walk_.costs = problem.costs();
    walk_.budget = problem.view().budget;
    std::int64_t* const rows = rows_.data();
    walk_.field = rows;
    walk_.until = rows + stride;
    walk_.threshold = rows + 2 * stride;
    walk_.adjusted = rows + 3 * stride;
    walk_.kept_until = rows + 4 * stride;
    walk_.count = count_.data();
    walk_.chosen = chosen_.data();
    walk_.best_chosen = chosen_.data() + walk_.max_items + 1;
  }

  SwapWalk& walk() { return walk_; }

  void begin_empty() {
    const std::size_t n = problem_.size();
    std::copy_n(problem_.linear(), problem_.stride(), walk_.field);
    for (std::size_t t = 0; t < walk_.terms; ++t) {
      const std::int64_t* row = problem_.term_row(t);
      for (std::size_t i = 0; i < n; ++i) walk_.field[i] += row[i];
    }
    std::fill_n(walk_.until, n, 0);
    std::fill(walk_.until + n, walk_.until + walk_.stride, kNever);
    std::fill_n(walk_.kept_until, walk_.stride, 0);
    std::fill(count_.begin(), count_.end(), 0);
    walk_.size = walk_.best_size = 0;
    walk_.value = walk_.best = walk_.spent = walk_.move = walk_.best_move = 0;
  }

  /// As many different items as are allowed and fit, drawn by the numbers of this read.
  void begin_random(std::uint64_t seed, std::uint64_t read) {
    begin_empty();
    const SweepKey key = sweep_key(read_key(seed ^ stream::initial_state, read), 0);
    const std::size_t n = problem_.size();
    order_.resize(n);
    std::iota(order_.begin(), order_.end(), 0);
    for (std::size_t k = 0; k < n && walk_.size < walk_.max_items; ++k) {
      const std::size_t left = n - k;
      const std::size_t pick = k + random_bits(key, static_cast<std::uint32_t>(k)) % left;
      std::swap(order_[k], order_[pick]);
      const std::int32_t item = order_[k];
      if (walk_.costs != nullptr && walk_.spent + walk_.costs[item] > walk_.budget) continue;
      evidence_kernels().add(walk_, item);
    }
    if (walk_.value > walk_.best) {
      walk_.best = walk_.value;
      walk_.best_size = walk_.size;
      std::copy_n(walk_.chosen, walk_.size, walk_.best_chosen);
    }
  }

 private:
  const EvidenceProblem& problem_;
  std::vector<std::int64_t> rows_;
  std::vector<std::int32_t> count_, chosen_, order_;
  SwapWalk walk_{};
};

constexpr std::size_t kMostReads = 64;
constexpr std::uint32_t kPatience = 10;

// Moves between two looks at the clock: about ten microseconds.
constexpr std::int64_t kMovesPerLook = 64;

}  // namespace

SwapPlan swap_plan(const EvidenceProblem& problem, const SwapOptions& options) {
  const std::size_t n = problem.size(), most = problem.view().max_items;
  SwapPlan plan;
  plan.num_reads = options.num_reads == 0 ? kMostReads : options.num_reads;
  // Two reads, three for ten items, and so on.
  plan.agreement = options.num_reads == 0 ? std::max<std::size_t>(2, 2 * most / 5) : 0;
  plan.patience = options.patience == 0 ? kPatience : options.patience;
  // An item that left stays out for about as many moves as there are places; one that came in stays for fewer, or
  // everything in the selection would be held.
  plan.add_tenure = static_cast<std::uint32_t>(std::min<std::size_t>(most, n / 4) + 1);
  plan.drop_tenure = static_cast<std::uint32_t>(most / 4);
  plan.tenure_spread = plan.add_tenure / 2 + 1;
  return plan;
}

EvidenceAnswer swap_search(const EvidenceProblem& problem, const SwapOptions& options, Control& control) {
  EvidenceAnswer answer;
  std::int64_t best = 0;
  std::size_t reached = 0;  // reads that came to it
  const SwapPlan plan = swap_plan(problem, options);
  answer.patience = plan.patience;
  if (problem.size() > 0 && problem.view().max_items > 0) {
    Walker walker(problem);
    SwapWalk& walk = walker.walk();
    walk.seed = options.seed;
    walk.add_tenure = plan.add_tenure;
    walk.drop_tenure = plan.drop_tenure;
    walk.tenure_spread = plan.tenure_spread;
    for (std::size_t read = 0; read < plan.num_reads && !control.stop(); ++read) {
      walk.read = read;
      if (read == 0) {
        walker.begin_empty();
      } else {
        walker.begin_random(options.seed, read);
      }
      bool done = false;
      while (!done && (walk.move == 0 || !control.stop())) {
        done = evidence_kernels().walk(walk, answer.patience, walk.move + kMovesPerLook);
      }
      answer.moves += static_cast<std::uint64_t>(walk.move);
      if (read == 0 || walk.best > best) {
        best = walk.best;
        reached = 1;
        answer.selection.assign(walk.best_chosen, walk.best_chosen + walk.best_size);
      } else if (walk.best == best) {
        ++reached;
      }
      ++answer.reads;
      control.report(static_cast<double>(answer.reads) / static_cast<double>(plan.num_reads));
      if (plan.agreed(reached, answer.reads - reached)) break;
    }
  }
  std::sort(answer.selection.begin(), answer.selection.end());
  answer.value = problem.evaluate(answer.selection);
  answer.stopped = control.reason();
  answer.search_seconds = control.seconds();
  return answer;
}

}  // namespace isinglass
