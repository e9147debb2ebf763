"""A sample of ONNX's own tests of back ends; `python -m benchmarks.suites.onnx_backend` runs all of them."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx")

from benchmarks.suites.onnx_backend import run_test

SAMPLE = (
    "test_add_bcast", "test_div_int8", "test_pow_types_float32_int64", "test_clip_example", "test_erf",
    "test_gemm_all_attributes", "test_matmul_4d", "test_reduce_l2_keep_dims_example", "test_softmax_axis_0",
    "test_reshape_zero_and_negative_dim", "test_slice_neg_steps", "test_reflect_pad", "test_gathernd_example_int32",
    "test_einsum_batch_matmul", "test_top_k", "test_cumsum_2d_axis_0", "test_nonzero_example", "test_if",
    "test_loop11", "test_scan9_sum", "test_sequence_insert_at_back", "test_cast_FLOAT_to_BFLOAT16",
    "test_layer_normalization_2d_axis0_expanded", "test_attention_4d_causal_expanded",
)  # fmt: skip


@pytest.mark.parametrize("name", SAMPLE)
def test_it_passes(name: str) -> None:
    outcome = run_test(name)
    assert outcome.kind == "passed", outcome.text
