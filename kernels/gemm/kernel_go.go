package gemm

import "unsafe"

// portable is the kernel in plain Go.
var portable = kernel{name: "go", mr: 4, nr: 4, tile: tileGo}

// tileGo is kernel.tile, 4×4. The bounds of a and b are those that pack and blocked keep for every kernel.
func tileGo(k int, a *float32, rs, cs int, b *float32, bs int, c *float32, ldc int, load bool) {
	as := unsafe.Slice(a, 3*rs+(k-1)*cs+1)
	ws := unsafe.Slice(b, (k-1)*bs+4)
	var s [4][4]float32
	if load {
		for i := range s {
			s[i] = *(*[4]float32)(unsafe.Slice(at(c, i*ldc), 4))
		}
	}
	// Two rows at a time: eight sums, four elements of b and one of a fit sixteen registers.
	for i := 0; i < 4; i += 2 {
		u0, u1, u2, u3 := s[i][0], s[i][1], s[i][2], s[i][3]
		v0, v1, v2, v3 := s[i+1][0], s[i+1][1], s[i+1][2], s[i+1][3]
		x, y := i*rs, (i+1)*rs
		for p := range k {
			w := (*[4]float32)(ws[p*bs:])
			f, g := as[x+p*cs], as[y+p*cs]
			u0 += f * w[0]
			u1 += f * w[1]
			u2 += f * w[2]
			u3 += f * w[3]
			v0 += g * w[0]
			v1 += g * w[1]
			v2 += g * w[2]
			v3 += g * w[3]
		}
		s[i], s[i+1] = [4]float32{u0, u1, u2, u3}, [4]float32{v0, v1, v2, v3}
	}
	for i := range s {
		*(*[4]float32)(unsafe.Slice(at(c, i*ldc), 4)) = s[i]
	}
}

func at(p *float32, i int) *float32 { return (*float32)(unsafe.Add(unsafe.Pointer(p), 4*i)) }
