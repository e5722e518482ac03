package kernels

// Dry is a device without memory: its tensors have sizes and no elements, and its ops do nothing. Code that runs on it takes
// what it would take elsewhere, so an [Arena] over it tells how much.
type Dry struct {
	Null
	half Type
}

var _ Device = (*Dry)(nil)

// NewDry returns a dry device of a half type.
func NewDry(half Type) *Dry { return &Dry{half: half} }

// Name is "dry".
func (*Dry) Name() string { return "dry" }

// Half is the type given to NewDry.
func (d *Dry) Half() Type { return d.half }

// dryAddress is where every tensor of a dry device begins: not nil, and never read.
const dryAddress = 256

// Alloc returns a tensor of float32 without elements.
func (*Dry) Alloc(rows, cols int) Tensor { return Tensor{Rows: rows, Cols: cols, Ptr: dryAddress} }

// AllocHalf returns a tensor of the half type without elements.
func (d *Dry) AllocHalf(rows, cols int) Tensor {
	return Tensor{Rows: rows, Cols: cols, Type: d.half, Ptr: dryAddress}
}

// Upload and UploadBytes leave nothing anywhere; Download leaves dst as it is.
func (*Dry) Upload(Tensor, []float32)   {}
func (*Dry) UploadBytes(Tensor, []byte) {}
func (*Dry) Download([]float32, Tensor) {}
