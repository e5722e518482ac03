package schema

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/vmihailenco/msgpack/v5"
)

// kinds lists a value of every record type.
var kinds = []Record{
	Root{}, Hop{}, Release{}, Gen{}, Claim{}, Added{}, Suspect{}, Dead{}, Prepared{}, Commit{}, RankEpoch{}, Join{}, Note{},
	PlanInfo{}, PoolInfo{}, BucketState{}, StageState{}, Progress{}, Control{},
}

const (
	kindKey    = "kind"
	versionKey = "v"
)

// ErrTooLarge says that a record does not fit MaxRecord bytes.
var ErrTooLarge = errors.New("record is too large")

// Encode returns the msgpack form of rec: one map with the keys kind and v, then the fields in the order of the struct,
// those of embedded structs in place. Integers take their shortest form and maps are sorted, so that equal records have
// equal bytes; nil and empty lists are the same. A record of more than MaxRecord bytes is refused with ErrTooLarge.
func Encode(rec Record) ([]byte, error) {
	v := reflect.Indirect(reflect.ValueOf(rec))
	if !v.IsValid() {
		return nil, errors.New("encode record: nil")
	}
	p, err := planOf(v.Type())
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	buf.Grow(256)
	e := msgpack.GetEncoder()
	defer msgpack.PutEncoder(e)
	e.Reset(&buf)
	if err := p.encode(e, v); err != nil {
		return nil, fmt.Errorf("encode %s: %w", p.kind, err)
	}
	if buf.Len() > MaxRecord {
		return nil, fmt.Errorf("encode %s: %w: %d bytes, at most %d may travel", p.kind, ErrTooLarge, buf.Len(), MaxRecord)
	}
	return buf.Bytes(), nil
}

// Decode reads a record of type T. It is strict: another kind or version, a field that is unknown, missing, doubled, of the
// wrong type or out of range, bytes after the record and more than MaxRecord bytes are errors that name kind and field.
func Decode[T Record](b []byte) (T, error) {
	var rec T
	v := reflect.ValueOf(&rec).Elem()
	p, err := planOf(v.Type())
	if err != nil {
		return rec, err
	}
	r, fields, err := open(b)
	if err != nil {
		return rec, fmt.Errorf("decode %s: %w", p.kind, err)
	}
	defer r.close()
	if r.kind != p.kind {
		return rec, fmt.Errorf("decode %s: is a record of kind %q", p.kind, r.kind)
	}
	if err := p.decode(r, fields, v); err != nil {
		var zero T
		return zero, fmt.Errorf("decode %s: %w", p.kind, err)
	}
	return rec, nil
}

// DecodeAny reads a record of whatever kind it says it is, as strictly as Decode. The result is a value, not a pointer.
func DecodeAny(b []byte) (Record, error) {
	r, fields, err := open(b)
	if err != nil {
		return nil, fmt.Errorf("decode record: %w", err)
	}
	defer r.close()
	p := byKind[r.kind]
	if p == nil {
		return nil, fmt.Errorf("decode record: unknown kind %q", r.kind)
	}
	v := reflect.New(p.typ).Elem()
	if err := p.decode(r, fields, v); err != nil {
		return nil, fmt.Errorf("decode %s: %w", p.kind, err)
	}
	return v.Interface().(Record), nil
}

// plan is how one record type travels.
type plan struct {
	kind   string
	typ    reflect.Type
	fields []field
	index  map[string]int // into fields, by key
}

type field struct {
	key   string
	index []int // of reflect.Value.FieldByIndex
	codec codec
}

var byType, byKind, planErr = makePlans()

func makePlans() (map[reflect.Type]*plan, map[string]*plan, error) {
	types, names := map[reflect.Type]*plan{}, map[string]*plan{}
	for _, rec := range kinds {
		p := &plan{kind: rec.Kind(), typ: reflect.TypeOf(rec), index: map[string]int{kindKey: -1, versionKey: -1}}
		if err := p.add(p.typ, nil); err != nil {
			return nil, nil, fmt.Errorf("record type %s: %w", p.typ, err)
		}
		types[p.typ], names[p.kind] = p, p
	}
	return types, names, nil
}

func planOf(t reflect.Type) (*plan, error) {
	if p := byType[t]; p != nil {
		return p, nil
	}
	if planErr != nil {
		return nil, planErr
	}
	return nil, fmt.Errorf("%s is not a record type", t)
}

func (p *plan) add(t reflect.Type, at []int) error {
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(slices.Clone(at), i)
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			if err := p.add(f.Type, index); err != nil {
				return err
			}
			continue
		}
		key := f.Tag.Get("msgpack")
		if _, twice := p.index[key]; twice || key == "" {
			return fmt.Errorf("field %s: key %q is empty or taken", f.Name, key)
		}
		c, err := codecOf(f.Type)
		if err != nil {
			return fmt.Errorf("field %s: %w", f.Name, err)
		}
		p.index[key] = len(p.fields)
		p.fields = append(p.fields, field{key, index, c})
	}
	return nil
}

func (p *plan) encode(e *msgpack.Encoder, v reflect.Value) error {
	w := writer{e}
	if err := errors.Join(e.EncodeMapLen(2+len(p.fields)), e.EncodeString(kindKey), e.EncodeString(p.kind),
		e.EncodeString(versionKey), e.EncodeUint(Version)); err != nil {
		return err
	}
	for i := range p.fields {
		f := &p.fields[i]
		if err := e.EncodeString(f.key); err != nil {
			return err
		}
		if err := f.codec.encode(w, v.FieldByIndex(f.index)); err != nil {
			return fmt.Errorf("field %q: %w", f.key, err)
		}
	}
	return nil
}

// decode reads n fields, all that p has, in any order.
func (p *plan) decode(r *reader, n int, v reflect.Value) error {
	var seen uint64 // no record has 64 fields
	for range n {
		key, err := r.text()
		if err != nil {
			return fmt.Errorf("a field's name: %w", err)
		}
		i, known := p.index[string(key)]
		if !known {
			return fmt.Errorf("unknown field %q", key)
		}
		if i < 0 || seen>>i&1 == 1 {
			return fmt.Errorf("field %q stands twice", key)
		}
		seen |= 1 << i
		f := &p.fields[i]
		if err := f.codec.decode(r, v.FieldByIndex(f.index)); err != nil {
			return fmt.Errorf("field %q: %w", f.key, err)
		}
	}
	var missing []string
	for i, f := range p.fields {
		if seen>>i&1 == 0 {
			missing = append(missing, f.key)
		}
	}
	if missing != nil {
		return fmt.Errorf("missing field %s", strings.Join(missing, ", "))
	}
	if r.left() > 0 {
		return fmt.Errorf("%d bytes after the record", r.left())
	}
	return nil
}
