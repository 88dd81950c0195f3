# SPDX-License-Identifier: Apache-2.0
"""What functions of PyTorch and NumPy are called here, for operation_coverage.py.

A function that stands in neither a list of names nor a list of reasons has the name of one of ours. What is not in
backticks is prose. Names called in the backticks must be declared in a header.
"""

# Each line: their names, a colon, and ours.
TORCH = """
adaptive_max_pool1d_with_indices adaptive_max_pool2d_with_indices adaptive_max_pool3d_with_indices: `adaptive_max_pool2d` and its like, of values alone
max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices: `max_pool2d` and its like, of values alone
bilinear: `einsum("bi,oij,bj->bo", {x, weight, y})`, plus the bias
channel_shuffle native_channel_shuffle: `reshape` to [n, groups, c / groups, ...], `transpose`, `reshape`
cosine_embedding_loss hinge_embedding_loss margin_ranking_loss soft_margin_loss: a line of `relu`, `clip`, `softplus` and `where`, and `mean`
cosine_similarity: `sum(x * y, {axis}) / maximum(norm(x, {axis}) * norm(y, {axis}), eps)`
dropout1d dropout2d dropout3d: `x * dropout(ones(...), p, generator)` with ones of shape [n, c, 1, 1]
gaussian_nll_loss poisson_nll_loss: their formulas of `log`, `square` and `exp`, and `mean`
gumbel_softmax: `softmax((logits + gumbel(logits.shape(), generator)) / tau)`
hardshrink: `hard_shrink`
hardsigmoid: `hard_sigmoid`
hardswish: `hard_swish`
hardtanh: `hard_tanh`
instance_norm: `group_norm`, with as many groups as channels
linear_cross_entropy: `cross_entropy(linear(x, weight), targets)`
logsigmoid: `log_sigmoid`
lp_pool1d lp_pool2d lp_pool3d: `pow(avg_pool2d(pow(abs(x), p)) * count, 1 / p)`
multi_head_attention_forward: `MultiheadAttention`
multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss triplet_margin_loss triplet_margin_with_distance_loss: a line of `gather`, `relu`, `norm` and `mean`
normalize: `x / maximum(norm(x, {axis}, true), eps)`
pad: `pad`, pairs of widths from the first axis on
pairwise_distance: `norm(x - y + eps, {-1})`
softshrink: `soft_shrink`
upsample upsample_bilinear upsample_nearest: `interpolate`
dropout: `dropout`, with a generator
conv_tbc: `conv1d` of permuted axes
affine_grid: `matmul` of a `meshgrid` of positions and theta
local_response_norm: `x / pow(k + alpha * mean, beta)`, with `avg_pool1d` of `square(x)` along the channels as mean
"""

TORCH_LEFT_OUT = {
    "In place: activations are expressions; parameters are written to under `NoGrad`":
        "celu_ elu_ hardtanh_ leaky_relu_ relu_ rrelu_ selu_ threshold_ scaled_addmm_",
    "Helpers of its implementation": "assert_int_or_pair boolean_dispatch handle_torch_function "
                                     "has_torch_function has_torch_function_unary has_torch_function_variadic",
    "Types of 8 bits and grouped products, which belong to them": "grouped_mm scaled_grouped_mm scaled_mm scaled_addmm",
    "Random in place of a plain operation, hardly used since batch norms": "alpha_dropout feature_alpha_dropout rrelu "
        "fractional_max_pool2d fractional_max_pool2d_with_indices fractional_max_pool3d "
        "fractional_max_pool3d_with_indices",
    "Needs the positions of a pooling's maxima, which stay inside": "max_unpool1d max_unpool2d max_unpool3d",
    "Columns of images (im2col), which `conv2d` makes itself; `unfold` here is that of a tensor's axis": "fold unfold",
    "Pairs of rows, by a gather of two triangles": "pdist",
}

NUMPY = """
absolute fabs: `abs`
acos arccos: `acos`
acosh arccosh: `acosh`
asin arcsin: `asin`
asinh arcsinh: `asinh`
atan arctan: `atan`
atan2 arctan2: `atan2`
atanh arctanh: `atanh`
add: `a + b`
subtract: `a - b`
multiply: `a * b`
divide true_divide: `a / b`
negative: `-x`
positive: `x`
equal not_equal: `a == b`, `a != b`
less less_equal greater greater_equal: `a < b` and its like
bitwise_and bitwise_or bitwise_xor: `a & b`, `a | b`, `a ^ b`
bitwise_not bitwise_invert invert: `~x`
power pow float_power: `pow`
divmod: `floor_divide` and `remainder`
mod: `remainder`
amax max: `max`
amin min: `min`
all: `all_true`
any: `any_true`
std: `stddev`, by n - 1 unless told otherwise
var: `var`, by n - 1 unless told otherwise
ptp: `max(x) - min(x)`
fix: `trunc`
rint around round: `round`, halves to even; no decimals
select: `where` in `where`
choose: `where`, or `gather` of a `stack`
array asarray asanyarray ascontiguousarray: `tensor`
asarray_chkfinite: `tensor`, `all_true(isfinite(x))`
astype: `cast`, `x.cast(dtype)`
append concat concatenate: `concatenate`
hstack vstack dstack column_stack row_stack block bmat: `concatenate` or `stack` along that axis
array_split hsplit vsplit dsplit split unstack: `split`, by lengths; `x[i]`
array_equal array_equiv: `all_true(a == b)`
allclose isclose: `abs(a - b) <= atol + rtol * abs(b)`, with `all_true`; but for infinities
argpartition partition: `topk`, `sort`
atleast_1d atleast_2d atleast_3d: `expand_dims`
average: `sum(x * w) / sum(w)`
broadcast_arrays: `broadcast_to`
broadcast_shapes: `broadcast_shapes`
cbrt: `sign(x) * pow(abs(x), 1.0 / 3)`
compress extract: `masked_select`
delete insert: `concatenate` of `slice`
copy: `x.array().copy()`
copysign: `where((a < 0) == (b < 0), a, -a)`, but for zeros and NaN
copyto: `x.copy_(y)`
corrcoef cov: `matmul` of what is centred
cross: `take`, `*` and `-`
cumulative_prod cumprod: `cumprod`
cumulative_sum cumsum: `cumsum`
deg2rad radians rad2deg degrees: `x * (pi / 180)` and its inverse
diag: `diagonal`; of a vector `eye(n) * x`
diagflat: `eye(n) * x`
diff ediff1d: the difference of two `slice`
gradient: the difference of two `slice`, halved
trapezoid: `sum((slice(y, axis, 1, n) + slice(y, axis, 0, n - 1)) * 0.5, {axis}) * dx`
digitize: `searchsorted(bins, x, !right)`, of ascending bins
dot vdot inner: `matmul`, `tensordot`
vecdot: `sum(a * b, {-1})`
matvec vecmat: `matmul`
kron: `einsum("ij,kl->ikjl", {a, b})`, `reshape`
empty empty_like: `zeros`: no memory is left unwritten
identity: `eye`
fill_diagonal: `where(eye(n) == 1, value, x)`
flatnonzero: `argwhere(flatten(x))`
nonzero argwhere: `argwhere`, a row for each
fliplr flipud: `flip`
fmax fmin: `where(isnan(a), b, where(isnan(b), a, maximum(a, b)))`
from_dlpack: `from_dlpack`
geomspace: `exp(linspace(log(a), log(b), n))`, with `std::log` of the ends
logspace: `pow(base, linspace(a, b, n))`
heaviside: `where(x == 0, h, where(x > 0, 1.0, 0.0))`, but for NaN
histogram: `bincount` of what `searchsorted` finds in the edges
hypot: `sqrt(a * a + b * b)`
isin: `any_true(expand_dims(x, -1) == values, {-1})`
isneginf isposinf: `x == -infinity`
lexsort: `argsort` from the last key on: it is stable
logaddexp2: `logaddexp(a * c, b * c) / c` with c = log(2.0)
matrix_transpose: `transpose`
transpose: `permute`; `transpose` swaps two axes
swapaxes: `transpose(x, axis0, axis1)`
permute_dims: `permute`
rollaxis: `moveaxis`
modf: `trunc`, `x - trunc(x)`
nanargmax nanmax: `where(isnan(x), -infinity, x)` before it
nanargmin nanmin: `where(isnan(x), infinity, x)` before it
nansum nancumsum: `where(isnan(x), 0, x)` before it
nanprod nancumprod: `where(isnan(x), 1, x)` before it
nanmean nanstd nanvar: sums of `where(isnan(x), 0, x)`, divided by the count
ndim shape size: `x.rank()`, `x.shape()`, `x.size()`
percentile: `quantile(x, percent / 100)`
put put_along_axis: `scatter`
putmask place: `masked_fill`, `where`
ravel: `flatten`
repeat: `repeat_interleave`
resize: `tile`, `slice`
require: `cast`, `reshape`
rot90: `transpose`, `flip`
result_type promote_types: `promote(a, b)`
save load: `write_npy`, `read_npy`
savez savez_compressed: `write_npz`, without compression
signbit: `x < 0`, but for zeros
sinc: `where(x == 0, 1, sin(pi * x) / (pi * x))`
take_along_axis: `gather`
trace: `sum(diagonal(x))`
tri: `tril(ones({n, n}))`
tril_indices tril_indices_from triu_indices triu_indices_from diag_indices diag_indices_from mask_indices: `argwhere` of the mask
unique_all unique_counts unique_inverse unique_values: `unique`
union1d: `unique` of a `concatenate`
trim_zeros: `slice`
vander: `pow`
polyval: `x * p + c`, in a loop
indices ix_: `meshgrid`
ravel_multi_index unravel_index: `floor_divide`, `%`
arange: `arange`
eye: `eye`
full: `full`
full_like: `full_like`
linspace: `linspace`
ones: `ones`
ones_like: `ones_like`
zeros: `zeros`
zeros_like: `zeros_like`
linalg.cross: `take`, `*` and `-`
linalg.det: `determinant`
linalg.diagonal: `diagonal(x, 0, -2, -1)`
linalg.inv: `inverse`
linalg.tensorinv linalg.tensorsolve: `inverse`, `solve` of a `reshape`
linalg.matrix_norm linalg.norm linalg.vector_norm: `norm`, the Euclidean; others are `max` and `sum` of `abs`, the nuclear `sum(svdvals(x))`
linalg.cond: `max(svdvals(x)) / min(svdvals(x))`
linalg.matrix_rank: `sum(svdvals(x) > tolerance)`
linalg.matrix_power linalg.multi_dot: `matmul`, repeatedly
linalg.matrix_transpose: `transpose`
linalg.vecdot: `sum(a * b, {-1})`
linalg.trace: `sum(diagonal(x, 0, -2, -1), {-1})`
linalg.lstsq: `qr` and `solve_triangular`, of full rank
linalg.pinv: `svd`, with singular values inverted
fft.fft2: `fftn(x, {.axes = {-2, -1}})`
fft.ifft2: `ifftn(x, {.axes = {-2, -1}})`
fft.rfft2: `rfftn(x, {.axes = {-2, -1}})`
fft.irfft2: `irfftn(x, {.axes = {-2, -1}})`
fft.fftshift fft.ifftshift: `roll`
fft.fftfreq fft.rfftfreq: `arange`, divided
fft.hfft: `irfft` of the conjugate, times n
fft.ihfft: the conjugate of `rfft`, divided by n
"""

NUMPY_LEFT_OUT = {
    "Complex numbers: results are pairs of real tensors (`ComplexTensor`), of transforms alone":
        "angle conj conjugate imag real real_if_close iscomplex iscomplexobj isreal isrealobj sort_complex",
    "Eigenvalues that may be complex: `eigh` is of symmetric matrices": "linalg.eig linalg.eigvals roots",
    "Dates, strings and records: there are numbers and bools": "busday_count busday_offset is_busday datetime_as_string "
        "datetime_data isnat",
    "Bits beyond logic, and whole-number theory": "bitwise_count bitwise_left_shift bitwise_right_shift left_shift "
        "right_shift packbits unpackbits gcd lcm",
    "How a number is stored": "frexp ldexp nextafter spacing",
    "Sets: `unique`, `sort` and `searchsorted` are their parts": "intersect1d setdiff1d setxor1d",
    "Signals, windows and curves, made once and on the host": "bartlett blackman hamming hanning kaiser i0 convolve "
        "correlate interp unwrap",
    "Histograms beyond `bincount`": "histogram2d histogram_bin_edges histogramdd",
    "Order statistics that skip NaN": "nanmedian nanpercentile nanquantile",
    "Polynomials": "poly polyadd polyder polydiv polyfit polyint polymul polysub",
    "A Python function for each element or row: operations are of whole tensors": "apply_along_axis apply_over_axes "
        "fromfunction fromiter frompyfunc nested_iters piecewise",
    "Files of text and raw memory: see docs/exchange.md for what is read": "frombuffer fromfile fromregex fromstring "
        "genfromtxt loadtxt savetxt",
    "Types, layouts and sharing of Python's arrays": "asfortranarray asmatrix can_cast common_type isdtype isfortran "
        "isscalar issubdtype iterable may_share_memory min_scalar_type mintypecode shares_memory typename",
    "Printing, errors and settings of NumPy itself": "array2string array_repr array_str base_repr binary_repr "
        "format_float_positional format_float_scientific get_include get_printoptions getbufsize geterr geterrcall info "
        "printoptions set_printoptions setbufsize seterr seterrcall show_config show_runtime test einsum_path",
}

# Operations whose results are NumPy's in all cases, or in some (integers); --libraries compares them with
# tools/references. And those of other packages.
NUMPY_ALONE = ""
NUMPY_TOO = ("abs add all_true any_true argmax argmin bitwise_and bitwise_or bitwise_xor ceil count_nonzero divide einsum equal floor "
             "floor_divide fmod greater greater_equal less less_equal matmul max maximum min minimum multiply negate "
             "not_equal pad pad_mode relu remainder round scatter searchsorted sign slogdet square subtract trunc unique")
OTHER_REFERENCES = {"rotary_embedding": "rotary-embedding-torch"}

# Of the functions that have no reference, what lives on the host.
HOST = "permutation"
HOST_NOTE = """On the host: `permutation` draws its order there and copies it; `masked_select`, `argwhere`, `unique`, `bincount` and
`repeat_interleave` of counts wait for the device, as the length of their results depends on values; `HashTable` finds the rows of ids
there (its rows are the device's). None of it is of CPU devices alone."""

# Where what has no reference is tested: the functions of kNoOperations (tests/references/coverage_test.cpp) that users
# call. All others there are steps of operations.
TESTED = {
    "tests/autodiff/engine/backward_test.cpp": "backward",
    "tests/autodiff/engine/grad_test.cpp": "grad",
    "tests/autodiff/engine/gradcheck_test.cpp": "gradcheck gradgradcheck",
    "tests/autodiff/engine/backward_regression_test.cpp": "custom_function",
    "tests/autodiff/operations/custom_elementwise_test.cpp": "elementwise_function",
    "tests/autodiff/engine/checkpoint_test.cpp": "checkpoint",
    "tests/autodiff/engine/autocast_test.cpp": "autocast",
    "tests/autodiff/operations/creation_test.cpp": "arange eye full full_like linspace ones ones_like tensor zeros zeros_like",
    "tests/autodiff/operations/dropout_test.cpp": "dropout",
    "tests/autodiff/operations/random_test.cpp": "bernoulli categorical multinomial permutation",
    "tests/backend/random/random_test.cpp": "normal truncated_normal uniform",
    "tests/autodiff/operations/distributions_test.cpp": "exponential gumbel laplace cauchy log_normal randint gamma",
    "tests/nn/modules/initialize_test.cpp": "fill_constant fill_normal fill_truncated_normal fill_uniform orthogonal "
                                    "identity identity_convolution kaiming_normal kaiming_uniform xavier_normal xavier_uniform",
    "tests/nn/modules/module_hooks_test.cpp": "call",
    "tests/autodiff/tensor/tensor_test.cpp": "operator+= operator-= operator*= operator/=",
}
