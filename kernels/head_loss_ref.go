package kernels

import "math"

// CheckHeadLoss panics unless h is [R, H], head [V, H], ce [R, 1], hit nil or [R, 1], labels has R entries, and, with
// dh not nil, dh is [R, H] and weight [R, 1].
func CheckHeadLoss(ce, hit, dh, h, head, weight Tensor, labels Index) {
	const op = "HeadLoss"
	Want(op, "ce", ce, h.Rows, 1)
	Want(op, "head", head, head.Rows, h.Cols)
	WantIndex(op, "labels", labels, h.Rows)
	if !hit.IsNil() {
		Want(op, "hit", hit, h.Rows, 1)
	}
	if !dh.IsNil() {
		Want(op, "dh", dh, h.Rows, h.Cols)
		Want(op, "weight", weight, h.Rows, 1)
	}
}

// HeadLoss: z = h·headᵀ; ce = logsumexp(z) - z[label]; hit = (label is the first maximum of z);
// dh = weight·(softmax(z) - onehot(label))·head.
func (*Ref) HeadLoss(ce, hit, dh, h, head, weight Tensor, labels Index) {
	CheckHeadLoss(ce, hit, dh, h, head, weight, labels)
	z, sum := make([]float64, head.Rows), make([]float64, h.Cols)
	for i, label := range labels.Host {
		top := headLogits(z, row(h, i), head)
		var total float64
		for _, v := range z {
			total += math.Exp(v - z[top])
		}
		lse := z[top] + math.Log(total)
		ce.F32[i] = float32(lse - z[label])
		if !hit.IsNil() {
			hit.F32[i] = 0
			if top == int(label) {
				hit.F32[i] = 1
			}
		}
		if dh.IsNil() {
			continue
		}
		clear(sum)
		for v, s := range z {
			p := math.Exp(s - lse)
			if v == int(label) {
				p--
			}
			for j, w := range row(head, v) {
				sum[j] += p * float64(w)
			}
		}
		for j, s := range sum {
			row(dh, i)[j] = float32(float64(weight.F32[i]) * s)
		}
	}
}

// headLogits fills z, rounded to float32 as every device stores them, and returns its first maximum.
func headLogits(z []float64, h []float32, head Tensor) (top int) {
	for v := range z {
		z[v] = float64(float32(dot(h, row(head, v))))
		if z[v] > z[top] {
			top = v
		}
	}
	return top
}
