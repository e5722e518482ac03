package schema

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files anew")

var (
	batch = Batch{Run: "20260102-150405-k3f9", Gen: 2, Epoch: 1, Window: 118, Index: 2841, Bucket: "b512"}
	slot  = SlotRef{Pool: "target-1", Incarnation: 0xfedcba9876543210, Slot: 2, Generation: 77}
)

// golden holds one record of every kind.
var golden = []Record{
	Root{batch, 12, 5120},
	Hop{batch, slot, 12, 5120, 384, 0x0123456789abcdef, "$JS.ACK.PS_FWD.fwd-2-b512.1.9.9.1767366245000000000.3", "target-1", 1767366245123456789},
	Release{slot, "pack-0"},
	Gen{"20260102-150405-k3f9", 3, 96, "draft-0"},
	Claim{batch, "draft-0", 42, 1},
	Added{batch, "draft-0", math.MaxUint64, 1, 12, 5120, 768},
	Suspect{batch, "features are all zero", "target-1"},
	Dead{batch, "features are not finite, twice"},
	Prepared{2, 118, "draft-0", 42, 1, 0xa5a5a5a5a5a5a5a5},
	Commit{"20260102-150405-k3f9", 2, 118, 1, []uint32{2832, 2833, 2841, 70000}, nil},
	RankEpoch{2, 118, 4, []string{"draft-0", "draft-2"}, []uint64{42, math.MaxUint64}},
	Join{"draft-2", 43},
	Note{"draft-1", "checkpoint is not usable", 1700000000000000000},
	PlanInfo{"20260102-150405-k3f9", "sha256:5feceb66ffc86f38", "runs/1/store", []uint32{128, 256, 512}, 240, 5760, 6000, 3},
	PoolInfo{"target-1", 9, "cudaipc", 0, 3, 2516582400, "bfloat16", "pools/target-1.sock", []byte{0, 1, 2, 255}},
	BucketState{"b512", 9, 4, 14, 311, 2000},
	StageState{"target-1", "target", 9, 4711, "cuda:0", "waiting", "a free slot", 2, 311, 1592320, 3, 3,
		map[string]float64{"compute": 81.5, "slot": 2.25, "credit": 0.125}, 0.0004, 0.0021,
		map[string]uint64{"forward": 311}, map[string]float64{"forward": 81.25}, 1.5e-14, 1767366245123456789},
	Progress{2, 118, 240, 219.25, 4.4375, 6e-4, 0.875, 600000, 90000, 1, 0, 1.3125, []float32{0.5, 0.25, 0.125}, false, 1767366245123456789},
	Control{"20260102-150405-k3f9", "stop"},
}

func TestGoldenBytes(t *testing.T) {
	if len(golden) != len(kinds) {
		t.Fatalf("%d golden records for %d kinds", len(golden), len(kinds))
	}
	for _, rec := range golden {
		t.Run(rec.Kind(), func(t *testing.T) {
			got, err := Encode(rec)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata/v1", rec.Kind()+".msgpack")
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("encodes to\n%x, golden\n%x", got, want)
			}
			back, err := DecodeAny(want)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(back, rec) {
				t.Errorf("decodes to %+v, want %+v", back, rec)
			}
		})
	}
}

// Every type of records.go with a Kind method is in kinds.
func TestKindsAreComplete(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "records.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var declared, listed []string
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "Kind" {
			declared = append(declared, f.Recv.List[0].Type.(*ast.Ident).Name)
		}
	}
	for _, rec := range kinds {
		listed = append(listed, reflect.TypeOf(rec).Name())
	}
	slices.Sort(declared)
	slices.Sort(listed)
	if !slices.Equal(declared, listed) {
		t.Errorf("kinds lists %v, records.go declares %v", listed, declared)
	}
	if planErr != nil {
		t.Error(planErr)
	}
}

// A record holds references to tensors, never their elements: no lists of wide elements but the few that are small by
// nature, and no type whose size a sender chooses freely.
func TestRecordsHoldNoTensors(t *testing.T) {
	allowed := map[string]bool{"hits": true, "handle": true, "batches": true, "dead": true, "buckets": true, "members": true, "incs": true,
		"seconds": true, "done": true, "took": true}
	for _, p := range byType {
		for _, f := range p.fields {
			typ := p.typ.FieldByIndex(f.index).Type
			switch typ.Kind() {
			case reflect.Slice, reflect.Map, reflect.Array, reflect.Interface, reflect.Pointer, reflect.Struct:
				if !allowed[f.key] {
					t.Errorf("%s: field %q of type %s could hold a tensor", p.kind, f.key, typ)
				}
			}
		}
	}
}

// The largest window there can be commits in one record.
func TestLargestCommitFits(t *testing.T) {
	c := Commit{Run: strings.Repeat("r", 64), Gen: math.MaxUint32, Window: math.MaxUint32, RankEpoch: math.MaxUint32}
	for i := range MaxWindowBatches {
		if list := &c.Batches; i%3 == 0 {
			c.Dead = append(c.Dead, math.MaxUint32-uint32(i))
		} else {
			*list = append(*list, math.MaxUint32-uint32(i))
		}
	}
	b, err := Encode(c)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := Decode[Commit](b); err != nil || !reflect.DeepEqual(back, c) {
		t.Errorf("round trip: %v", err)
	}
	c.Batches = make([]uint32, MaxRecord)
	if _, err := Encode(c); err == nil || !strings.Contains(err.Error(), "encode commit") {
		t.Errorf("a record over the limit: %v", err)
	}
}

func TestToJSON(t *testing.T) {
	b, err := Encode(golden[1])
	if err != nil {
		t.Fatal(err)
	}
	got, err := ToJSON(b)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"kind":"hop","run":"20260102-150405-k3f9","gen":2,"epoch":1,"window":118,"batch":2841,"bucket":"b512",` +
		`"pool":"target-1","inc":"fedcba9876543210","slot":2,"sgen":77,"docs":12,"tokens":5120,"width":384,` +
		`"sum":"0123456789abcdef","root":"$JS.ACK.PS_FWD.fwd-2-b512.1.9.9.1767366245000000000.3","from":"target-1",` +
		`"sent":"2026-01-02T15:04:05.123456789Z"}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	b, err = Encode(Progress{Loss: math.NaN(), GradNorm: math.Inf(1), Hits: []float32{float32(math.NaN())}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err = ToJSON(b); err != nil || !json.Valid(got) || !bytes.Contains(got, []byte(`"grad_norm":"+Inf"`)) {
		t.Errorf("%s, %v", got, err)
	}
}

// fill draws a value for every field of v. Lists are nil rather than empty, as Decode leaves them.
func fill(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.Slice:
		n := rapid.IntRange(0, 12).Draw(t, "len")
		if n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		for i := range n {
			fill(t, v.Index(i))
		}
	case reflect.Map:
		if n := rapid.IntRange(0, 5).Draw(t, "len"); n > 0 {
			v.Set(reflect.MakeMap(v.Type()))
			for _, key := range rapid.SliceOfNDistinct(rapid.String(), n, n, rapid.ID).Draw(t, "keys") {
				value := reflect.New(v.Type().Elem()).Elem()
				fill(t, value)
				v.SetMapIndex(reflect.ValueOf(key), value)
			}
		}
	case reflect.String:
		v.SetString(rapid.StringN(0, 20, 60).Draw(t, "text"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Uint8:
		v.SetUint(uint64(rapid.Uint8().Draw(t, "byte")))
	case reflect.Uint32:
		v.SetUint(uint64(rapid.Uint32().Draw(t, "uint")))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "uint"))
	case reflect.Int32:
		v.SetInt(int64(rapid.Int32().Draw(t, "int")))
	case reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "int"))
	case reflect.Float32:
		v.SetFloat(float64(rapid.Float32().Draw(t, "float")))
	case reflect.Float64:
		v.SetFloat(rapid.Float64().Draw(t, "float"))
	default:
		t.Fatalf("no values of %s", v.Type())
	}
}

func TestRoundTrip(t *testing.T) {
	for _, rec := range kinds {
		t.Run(rec.Kind(), rapid.MakeCheck(func(t *rapid.T) {
			v := reflect.New(reflect.TypeOf(rec)).Elem()
			fill(t, v)
			b, err := Encode(v.Interface().(Record))
			if err != nil {
				t.Fatal(err)
			}
			back, err := DecodeAny(b)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(back, v.Interface()) {
				t.Fatalf("%+v comes back as %+v", v, back)
			}
			again, err := Encode(v.Addr().Interface().(Record))
			if err != nil || !bytes.Equal(again, b) {
				t.Fatalf("a second encoding differs: %v", err)
			}
		}))
	}
}

func BenchmarkEncodeHop(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Encode(golden[1]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeHop(b *testing.B) {
	text, err := Encode(golden[1])
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode[Hop](text); err != nil {
			b.Fatal(err)
		}
	}
}
