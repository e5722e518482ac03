package safetensors

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// odd are float32 patterns that a conversion may get wrong: both zeros, subnormal and normal limits, ties, what rounds to an
// infinity, infinities, and NaNs whose payload lies above or below the cut.
var odd = []uint32{0, 1 << 31, 1, 0x80000001, 0x007fffff, 0x00800000, 0x00008000, 0x3f808000, 0x3f818000, 0x3f808001, 0x3f807fff, 0x7f7f7fff,
	0x7f7f8000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7f800001, 0xffffffff, 0x7fc00000, 0x7fa00000, 0xff80ffff}

// oddValue is element i of a tensor.
func oddValue(name string, i int) uint32 {
	if n := i % 64; n < len(odd) {
		return odd[n]
	}
	return uint32(i)*2654435761 + uint32(len(name))
}

func oddSource(dst []float32, name string, at int) error {
	for i := range dst {
		dst[i] = math.Float32frombits(oddValue(name, at+i))
	}
	return nil
}

// roundedBF16 rounds through the two neighbours of x and their distance from it.
func roundedBF16(x uint32) uint16 {
	f := float64(math.Float32frombits(x))
	down := uint16(x >> 16) // towards zero
	if math.IsNaN(f) {
		return down | 0x40
	}
	wide := func(b uint32) float64 {
		if b&0x7fff == 0x7f80 {
			return math.Copysign(math.Ldexp(1, 128), f) // what would come behind the largest number
		}
		return float64(math.Float32frombits(b << 16))
	}
	if math.IsInf(f, 0) {
		return down
	}
	below, above := math.Abs(f-wide(uint32(down))), math.Abs(wide(uint32(down)+1)-f)
	if below > above || below == above && down&1 == 1 {
		return down + 1
	}
	return down
}

// plain writes a file of tensors in the order given, one value after another.
func plain(t *testing.T, as DType, tensors []Spec) []byte {
	var head bytes.Buffer
	var data []byte
	head.WriteString(`{"__metadata__":{"format":"pt"}`)
	for _, s := range tensors {
		begin := len(data)
		for i := range product(s.Shape) {
			if x := oddValue(s.Name, i); as == F32 {
				data = binary.LittleEndian.AppendUint32(data, x)
			} else {
				data = binary.LittleEndian.AppendUint16(data, roundedBF16(x))
			}
		}
		shape, err := json.Marshal(s.Shape)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&head, `,"%s":{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]}`, s.Name, as, shape, begin, len(data))
	}
	head.WriteByte('}')
	for (8+head.Len())%64 != 0 {
		head.WriteByte(' ')
	}
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(head.Len())), head.Bytes()...), data...)
}

// Files that are filled side by side, and those written tensor by tensor, have the bytes of a plain writer.
func TestFillWritesWhatAPlainWriterWrites(t *testing.T) {
	for _, as := range []DType{F32, BF16} {
		specs := []Spec{ // sorted by name
			{"a", as, []int{1}}, {"b", as, []int{}}, {"c", as, []int{7, 11}}, {"d", as, []int{0, 5}}, {"e", as, []int{chunk + 1}},
			{"f", as, []int{2, chunk / 2}}, {"g", as, []int{13}},
		}
		want := plain(t, as, specs)
		dir := t.TempDir()
		create := func(name string) *Writer {
			w, err := Create(filepath.Join(dir, name), specs, map[string]string{"format": "pt"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(w.Abort)
			return w
		}
		whole, sum := create("whole"), sha256.New()
		files := []Filling{{create("hashed"), oddSource, sum}, {create("not"), oddSource, nil}, {create("too"), oddSource, sha256.New()}}
		if err := Fill(files...); err != nil {
			t.Fatal(err)
		}
		for _, s := range specs {
			v := make([]float32, product(s.Shape))
			oddSource(v, s.Name, 0)
			if err := whole.Float32(s.Name, v); err != nil {
				t.Fatal(err)
			}
		}
		for _, w := range []*Writer{files[0].Writer, files[1].Writer, files[2].Writer, whole} {
			if err := w.Commit(); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(w.path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				at := 0
				for at < min(len(got), len(want)) && got[at] == want[at] {
					at++
				}
				t.Errorf("%s %s: %d bytes, want %d; they differ from offset %d on", as, filepath.Base(w.path), len(got), len(want), at)
			}
		}
		if got, want := [32]byte(sum.Sum(nil)), sha256.Sum256(want); got != want {
			t.Errorf("%s: hash %x, want %x", as, got, want)
		}
	}
	goleak.VerifyNone(t)
}

// Whatever fails in the middle, a source or writing one of the files: it is the one error, no goroutine is left and no file
// can be committed.
func TestFillEndsAtTheFirstFailure(t *testing.T) {
	specs := []Spec{{"a", F32, []int{3}}, {"b", F32, []int{3 * chunk}}}
	lost := errors.New("device lost")
	for bad := range 3 {
		for name, c := range map[string]struct {
			fail func(w *Writer) error // called by the bad file's source
			want error
			at   string
		}{
			"source": {func(*Writer) error { return lost }, lost, `tensor "b"`},
			"write":  {func(w *Writer) error { return w.file.File.Close() }, os.ErrClosed, `tensor "`}, // whose chunk is first is open
		} {
			dir := t.TempDir()
			var files []Filling
			for i := range 3 {
				w, err := Create(filepath.Join(dir, fmt.Sprint(i)), specs, nil)
				if err != nil {
					t.Fatal(err)
				}
				f := Filling{Writer: w, From: oddSource}
				if i > 0 {
					f.Sum = sha256.New()
				}
				if i == bad {
					f.From = func(dst []float32, name string, at int) error {
						if at != chunk {
							return oddSource(dst, name, at)
						}
						return c.fail(w)
					}
				}
				files = append(files, f)
			}
			err := Fill(files...)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.at) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s of file %d: error %v", name, bad, err)
			}
			goleak.VerifyNone(t)
			for _, f := range files {
				if err := f.Commit(); err == nil {
					t.Errorf("%s of file %d: %s can be committed", name, bad, f.path)
				}
			}
			if left, _ := os.ReadDir(dir); len(left) != 0 {
				t.Errorf("%s of file %d: left over: %v", name, bad, left)
			}
		}
	}
}

func TestFillRefuses(t *testing.T) {
	create := func(as DType) *Writer {
		w, err := Create(filepath.Join(t.TempDir(), "f"), []Spec{{"a", as, []int{2}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Abort)
		return w
	}
	if err := Fill(Filling{Writer: create(I32), From: oddSource}); err == nil || !strings.Contains(err.Error(), "cannot write float32 values as I32") {
		t.Errorf("integers: %v", err)
	}
	w := create(F32)
	if err := w.Float32("a", []float32{1, 2}); err != nil {
		t.Fatal(err)
	}
	if err := Fill(Filling{Writer: w, From: oddSource}); err == nil || !strings.Contains(err.Error(), "is written already") {
		t.Errorf("a tensor twice: %v", err)
	}
}

// On a machine of the other order of bytes numbers are taken apart; that gives the same file.
func TestOrderOfBytes(t *testing.T) {
	v, back := make([]float32, 99), make([]float32, 99)
	oddSource(v, "", 0)
	for _, as := range []DType{F32, BF16} {
		var own, taken encoder
		want := own.encode(v, as)
		inPlace = !inPlace
		got := taken.encode(v, as)
		if as == F32 {
			decodeF32(back, got)
		}
		inPlace = !inPlace
		if !bytes.Equal(got, want) || as == F32 && !bytes.Equal(memory(back), memory(v)) {
			t.Errorf("%s: %x, want %x", as, got, want)
		}
	}
}

// However long a tensor is, three chunks of a hashed file are in memory.
func TestFillHoldsFewChunks(t *testing.T) {
	w, err := Create(filepath.Join(t.TempDir(), "f"), []Spec{{"a", F32, []int{7 * chunk}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = Fill(Filling{w, func([]float32, string, int) error { return nil }, sha256.New()})
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; err != nil || took > 4*(3*chunk+chunk/4) {
		t.Errorf("%d bytes were allocated, %v", took, err)
	}
}
