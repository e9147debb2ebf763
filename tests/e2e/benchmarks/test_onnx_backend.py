"""A sample of ONNX's own tests of back ends; `python -m benchmarks.suites.onnx_backend` runs all of them."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx")

from benchmarks.suites.onnx_backend import main, run_test

SAMPLE = (
    "test_add_bcast", "test_div_int8", "test_pow_types_float32_int64", "test_clip_example", "test_erf",
    "test_gemm_all_attributes", "test_matmul_4d", "test_reduce_l2_keep_dims_example", "test_softmax_axis_0",
    "test_reshape_zero_and_negative_dim", "test_slice_neg_steps", "test_reflect_pad", "test_gathernd_example_int32",
    "test_einsum_batch_matmul", "test_top_k", "test_cumsum_2d_axis_0", "test_nonzero_example", "test_if",
    "test_loop11", "test_scan9_sum", "test_sequence_insert_at_back", "test_cast_FLOAT_to_BFLOAT16",
    "test_layer_normalization_2d_axis0_expanded", "test_attention_4d_causal_expanded",
    "test_basic_conv_with_padding", "test_convtranspose", "test_maxpool_2d_default", "test_averagepool_2d_ceil",
    "test_batchnorm_epsilon", "test_instancenorm_epsilon", "test_resize_upsample_scales_linear",
    "test_gridsample_bilinear", "test_roialign_aligned_true", "test_lstm_defaults", "test_gru_seq_length",
    "test_simple_rnn_defaults", "test_dft", "test_stft", "test_quantizelinear_axis", "test_dequantizelinear_blocked",
    "test_qlinearmatmul_2D_uint8_float32", "test_matmulinteger", "test_convinteger_with_padding",
    "test_scatternd_add", "test_scatter_elements_with_axis", "test_col2im",
    "test_maxunpool_export_without_output_shape", "test_layer_normalization_2d_axis0",
    "test_nonmaxsuppression_suppress_by_IOU", "test_unique_sorted_with_axis", "test_cast_FLOAT_to_INT4",
    "test_deform_conv_with_mask_bias", "test_dropout_default", "test_range_float_type_positive_delta",
    "test_optional_has_element_tensor_input", "test_sequence_map_add_2_sequences_expanded", "test_onehot_with_axis",
    "test_argmax_keepdims_example",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("part", ["node", "expanded"])
def test_the_formulas_of_all_operators(part: str) -> None:
    assert main(["--part", part, "--arch", "reference"]) == 0


@pytest.mark.parametrize("name", SAMPLE)
def test_it_passes(name: str) -> None:
    outcome = run_test(name)
    assert outcome.kind == "passed", outcome.text
