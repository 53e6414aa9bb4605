package explore

import (
	"encoding/binary"
	"fmt"
	"reflect"
)

// appendFields appends the value of every field of the structure that p points to, as a key: of a structure whose fields
// are not exported it forgets none, those added later included.
func appendFields(dst []byte, p any) []byte { return appendValue(dst, reflect.ValueOf(p).Elem()) }

func appendValue(dst []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return append(dst, 1)
		}
		return append(dst, 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return binary.AppendVarint(dst, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return binary.AppendUvarint(dst, v.Uint())
	case reflect.String:
		dst = binary.AppendUvarint(dst, uint64(v.Len()))
		return append(dst, v.String()...)
	case reflect.Slice, reflect.Array:
		dst = binary.AppendUvarint(dst, uint64(v.Len()))
		for i := range v.Len() {
			dst = appendValue(dst, v.Index(i))
		}
		return dst
	case reflect.Struct:
		for i := range v.NumField() {
			dst = appendValue(dst, v.Field(i))
		}
		return dst
	}
	panic(fmt.Sprintf("explore: a key can't hold a %v", v.Kind()))
}
