"""Of torchvision: convolutions with moved places, regions of images."""

from __future__ import annotations

from typing import Any

from tiledsl import tile
from tiledsl.importers.torch.register import aten
from tiledsl.ops.checks import as_tensor, refuse_option, widened
from tiledsl.ops.images.deformed import deformed_convolution
from tiledsl.ops.images.sampling import sample


@aten("torchvision::deform_conv2d")
def deform_conv2d(
    x: Any, weight: Any, offset: Any, mask: Any, bias: Any, stride_h: int, stride_w: int, pad_h: int, pad_w: int,
    dilation_h: int, dilation_w: int, groups: int, offset_groups: int, use_mask: bool,
) -> Any:  # fmt: skip
    return deformed_convolution(
        as_tensor(x), as_tensor(weight), as_tensor(offset), as_tensor(bias), as_tensor(mask) if use_mask else None,
        stride=(stride_h, stride_w), padding=(pad_h, pad_w), dilation=(dilation_h, dilation_w), groups=groups,
        offset_groups=offset_groups,
    )  # fmt: skip


@aten("torchvision::roi_align")
def roi_align(
    x: Any, rois: Any, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int, aligned: bool
) -> Any:
    """Means of samples in the parts of regions: `rois` [K, 5] has the number of an image, left, top, right, bottom."""
    if sampling_ratio <= 0:
        fix = "say how many samples a part has along each axis"
        refuse_option("roi_align", "sampling_ratio", sampling_ratio, "a number from 1 on", fix)
    x, rois = as_tensor(x), widened(as_tensor(rois))
    corners = rois[:, 1:] * spatial_scale - (0.5 if aligned else 0.0)
    places: list[Any] = []
    inside: list[Any] = []
    for axis, parts in enumerate((pooled_height, pooled_width)):
        start, stop = corners[:, 1 - axis], corners[:, 3 - axis]
        length = stop - start if aligned else tile.maximum(stop - start, 1.0)
        count = parts * sampling_ratio
        along = (tile.arange(count).to(rois.dtype) + 0.5) * (1.0 / sampling_ratio)
        at = start[:, None] + along[None] * (length / float(parts))[:, None]  # [K, count]
        inside.append((at >= -1.0) & (at <= float(x.shape[2 + axis])))
        places.append(at)
    shape = (rois.shape[0], places[0].shape[1], places[1].shape[1])
    rows, columns = (tile.broadcast_to(p, shape) for p in (places[0][:, :, None], places[1][:, None, :]))
    images = tile.take(x, rois[:, 0].to(tile.i64), axis=0)
    found = sample(images, [rows, columns], padding_mode="border")
    within = inside[0][:, :, None] & inside[1][:, None, :]
    found = tile.where(within[:, None], found, 0.0)
    split = (*found.shape[:2], pooled_height, sampling_ratio, pooled_width, sampling_ratio)
    return tile.mean(tile.mean(found.reshape(split), axis=5), axis=3).to(x.dtype)
