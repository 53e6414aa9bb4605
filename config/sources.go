package config

import (
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"
)

// sources resolves options that no flag gives: from the environment, then from the file. kong would take the file first.
type sources struct {
	file map[string]string // by option
}

// open reads the file that --config names, if the grammar has this option and it is given.
func (s *sources) open(ctx *kong.Context) error {
	options := map[string]*kong.Flag{}
	for _, flag := range ctx.Model.Flags {
		options[flag.Name] = flag
	}
	config := options["config"]
	if config == nil {
		return nil
	}
	path := ctx.FlagValue(config).(string)
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return &UsageError{Option: "config", Value: path, Problem: "cannot be read: " + err.Error()}
	}
	s.file, err = readFile(text, options)
	if err != nil {
		return &UsageError{Option: "config", Value: path, Problem: err.Error()}
	}
	return nil
}

// readFile reads the YAML: option names and their values.
func readFile(text []byte, options map[string]*kong.Flag) (map[string]string, error) {
	var entries yaml.MapSlice
	if err := yaml.Unmarshal(text, &entries); err != nil {
		return nil, fmt.Errorf("is no YAML mapping of options: %w", err)
	}
	values := map[string]string{}
	for _, e := range entries {
		key := fmt.Sprint(e.Key)
		flag := options[key]
		if flag == nil || !flag.Tag.Has("allowed") || flag.Tag.Has("nofile") {
			return nil, fmt.Errorf("unknown key %q: must be the name of an option, such as queue-capacity", key)
		}
		value, ok := scalars(e.Value)
		if !ok {
			return nil, fmt.Errorf("key %q: must be %s", key, flag.Tag.Get("allowed"))
		}
		values[key] = value
	}
	return values, nil
}

// scalars yields a value as text; a list one value a line.
func scalars(v any) (string, bool) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	var texts []string
	for _, v := range list {
		switch v := v.(type) {
		case string, bool, int64, uint64, float64:
			texts = append(texts, fmt.Sprint(v))
		default:
			return "", false
		}
	}
	return strings.Join(texts, "\n"), len(texts) > 0
}

// Validate is part of kong.Resolver. The keys were checked when the file was read.
func (*sources) Validate(*kong.Application) error { return nil }

// Resolve is part of kong.Resolver.
func (s *sources) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, env := range flag.Envs {
		if text, ok := os.LookupEnv(env); ok {
			return text, nil
		}
	}
	if text, ok := s.file[flag.Name]; ok {
		return text, nil
	}
	return nil, nil
}
