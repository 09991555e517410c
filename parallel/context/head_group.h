#pragma once
#include <cstdint>

#include "model/ops/attention.h"
#include "model/ops/table_copy.h"

namespace trireme {

// Adjacent heads of tensors with the layout of qkv, out and lse, and their own tensors, which have
// these heads alone. `keys` key-value heads from `first_key` on, and the `queries` query heads from
// `first_query` on, which read them.
struct HeadGroup {
  ops::Heads all;
  std::int64_t first_query = 0, queries = 1;
  std::int64_t first_key = 0, keys = 1;

  static HeadGroup whole(const ops::Heads& heads) {
    return {.all = heads, .queries = heads.heads, .keys = heads.kv_heads};
  }

  ops::Heads heads() const { return {queries, keys, all.width}; }
  std::int64_t kv_width() const { return 2 * keys * all.width; }
  ops::AttentionShape shape(ops::AttentionShape of_all) const {
    of_all.heads = heads();
    of_all.first_head += first_query;
    return of_all;
  }

  // own [rows, heads().qkv()] = these heads of qkv.
  void take(Stream& stream, Tensor own, Tensor qkv) const {
    take_queries(stream, own, qkv);
    take_keys(stream, {own, queries * all.width}, qkv);
  }
  // These heads' queries, which are the first columns of `own` and of the tensor of all heads: of
  // qkv or out.
  void take_queries(Stream& stream, Tensor own, Tensor of_all) const {
    ops::copy_columns(stream, {own}, {of_all, first_query * all.width}, queries * all.width);
  }
  void put_queries(Stream& stream, Tensor of_all, Tensor own) const {
    ops::copy_columns(stream, {of_all, first_query * all.width}, {own}, queries * all.width);
  }
  // Keys, then values, of qkv.
  void take_keys(Stream& stream, const ops::Columns& own, Tensor qkv) const {
    for (std::int64_t i = 0; i < 2; ++i) {
      ops::copy_columns(stream, {own.table, own.first + i * keys * all.width}, {qkv, key_column(i)},
                        keys * all.width);
    }
  }
  void put_keys(Stream& stream, Tensor qkv, const ops::Columns& own) const {
    for (std::int64_t i = 0; i < 2; ++i) {
      ops::copy_columns(stream, {qkv, key_column(i)}, {own.table, own.first + i * keys * all.width},
                        keys * all.width);
    }
  }
  // own [rows, queries] of lse [rows, heads].
  void take_lse(Stream& stream, Tensor own, Tensor lse) const {
    ops::copy_columns(stream, {own}, {lse, first_query}, queries);
  }
  void put_lse(Stream& stream, Tensor lse, Tensor own) const {
    ops::copy_columns(stream, {lse, first_query}, {own}, queries);
  }

 private:
  // Of keys, i = 0, or of values, i = 1.
  std::int64_t key_column(std::int64_t i) const {
    return (all.heads + i * all.kv_heads + first_key) * all.width;
  }
};

}  // namespace trireme
