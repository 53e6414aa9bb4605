package config_test

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/config"
)

// wrong yields values that no option of the type allows.
func wrong(field reflect.StructField) []any {
	switch reflect.Zero(field.Type).Interface().(type) {
	case int:
		return []any{math.MinInt, math.MaxInt}
	case time.Duration:
		return []any{time.Duration(-1), time.Duration(math.MaxInt64)}
	case config.Size:
		return []any{config.Size(-1), config.Size(math.MaxInt64)}
	case float64:
		return []any{-1.0, 0.0, 1.1, math.NaN()}
	case config.Sink:
		return []any{config.Sink{}, config.Sink{Kind: config.SinkFile, Framing: config.FramingLF}, config.Sink{Kind: "udp", Path: "x"}}
	case []config.Token:
		return []any{[]config.Token{{"a b", "x"}}, []config.Token{{"a", ""}}, []config.Token{{"a", "x"}, {"b", "x"}}}
	case []config.First:
		return []any{[]config.First{{"a", 0}}, []config.First{{"a", 1 << 63}}, []config.First{{"a", 1}, {"a", 1}}}
	case string:
		if field.Tag.Get("default") != "" {
			return []any{""}
		}
	}
	return nil
}

// A program that embeds the server sets fields instead of flags: Validate finds each wrong one.
func TestValidateChecksEachField(t *testing.T) {
	checked := 0
	for field := range reflect.TypeFor[config.Server]().Fields() {
		for _, value := range wrong(field) {
			o := must(t)(parse(t))
			reflect.ValueOf(o).Elem().FieldByIndex(field.Index).Set(reflect.ValueOf(value))
			var usage *config.UsageError
			require.ErrorAs(t, o.Validate(), &usage, "%s %v", field.Name, value)
			require.Equal(t, field.Tag.Get("name"), usage.Option)
			checked++
		}
	}
	require.Greater(t, checked, 40)
}
