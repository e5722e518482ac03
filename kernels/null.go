package kernels

// Null is a host device whose ops do nothing: outputs keep what they hold, results are zero, features are always good.
// With it the pipeline moves empty work, which is how the broker's share of the time is measured.
type Null struct{ Ref }

var _ Device = (*Null)(nil)

// NewNull returns a device that does nothing.
func NewNull() *Null { return &Null{} }

// Name is "null".
func (*Null) Name() string { return "null" }

func (*Null) Zero(Tensor)                               {}
func (*Null) Copy(_, _ Tensor)                          {}
func (*Null) CopyCols(Tensor, int, Tensor)              {}
func (*Null) Add(_, _ Tensor)                           {}
func (*Null) Scale(Tensor, float32)                     {}
func (*Null) ScaleRows(_, _ Tensor)                     {}
func (*Null) Gather(_, _ Tensor, _ Index)               {}
func (*Null) Scatter(_, _ Tensor, _ Index)              {}
func (*Null) Gemm(_, _, _ Tensor, _, _ bool, _ float32) {}
func (*Null) SwiGLU(_, _, _ Tensor)                     {}
func (*Null) SwiGLUBackward(_, _, _, _, _ Tensor)       {}
func (*Null) AddBias(_, _ Tensor)                       {}

func (*Null) RMSNorm(_, _, _, _ Tensor, _ float32)                                 {}
func (*Null) RMSNormBackward(_, _, _, _, _, _ Tensor, _ bool)                      {}
func (*Null) HeadNormRope(_, _, _, _ Tensor, _ int, _ Index, _ Rope, _ float32)    {}
func (*Null) HeadNormRopeBackward(_, _, _, _, _, _ Tensor, _ int, _ Index, _ Rope) {}

func (*Null) CausalAttention(_, _, _, _ Tensor, _ []Segment, _ Heads)              {}
func (*Null) BlockAttention(_, _, _, _, _, _, _ Tensor, _ []Block, _ int, _ Heads) {}
func (*Null) BlockAttentionBackward(_, _, _, _, _, _, _, _, _, _, _, _, _ Tensor, _ []Block, _ int, _ Heads) {
}

func (*Null) HeadLoss(_, _, _, _, _, _ Tensor, _ Index) {}
func (*Null) Argmax(h, _ Tensor) []int32                { return make([]int32, h.Rows) }

func (*Null) SumSquares(Tensor) float64          { return 0 }
func (*Null) AdamW(_, _, _, _, _ Tensor, _ Adam) {}
func (*Null) CheckFeatures(Tensor) FeatureCheck  { return FeatureCheck{Finite: true} }
