package main

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Options is spec/options.yaml.
type Options struct {
	Programs []*Program `yaml:"programs"`
}

// A Program has options, and perhaps arguments.
type Program struct {
	Name      string    `yaml:"name"`
	Command   string    `yaml:"command"` // as it is typed
	Arguments *Argument `yaml:"arguments"`
	Options   []*Option `yaml:"options"`
}

// An Argument is what follows the options, once or more.
type Argument struct {
	Name  string `yaml:"name"`
	Shown string `yaml:"shown"`
	Text  `yaml:",inline"`
}

// An Option is one flag, with its environment name and its key in the file.
type Option struct {
	Name     string   `yaml:"name"`
	Type     string   `yaml:"type"`
	Default  string   `yaml:"default"`
	Min      string   `yaml:"min"`
	Max      string   `yaml:"max"`
	Unit     string   `yaml:"unit"`
	Choices  []string `yaml:"choices"`
	Required bool     `yaml:"required"`
	Secret   bool     `yaml:"secret"` // its value is never shown
	File     *bool    `yaml:"file"`   // false: it cannot come from the file
	Text     `yaml:",inline"`
}

// An optionType is what the generator knows of a type of options.
type optionType struct {
	goType, placeholder string
	allowed             Text // with the bounds or choices put in
	check               string
	bounded             bool
}

var optionTypes = map[string]optionType{
	"address": {"string", "HOST:PORT", Text{"HOST:PORT, with a port from 0 to 65535", "HOST:PORT，端口为 0 到 65535"}, "isAddress(o.%s)", false},
	"bool":    {"bool", "", Text{"true or false", "true 或 false"}, "", false},
	"choice":  {"string", "", Text{"%s", "%s"}, "oneOf(o.%s, %s)", false},
	"duration": {"time.Duration", "TIME", Text{"a duration from %s to %s", "%s 到 %s 的时长"},
		"between(o.%s, %s, %s)", true},
	"firsts": {"[]First", "NAME=N", Text{"NAME=N, with a collector's name and a number from 1 to 9223372036854775807, each name once",
		"NAME=N，即采集器名称与 1 到 9223372036854775807 的编号，每个名称一次"}, "validFirsts(o.%s)", false},
	"int":  {"int", "N", Text{"an integer from %s to %s", "%s 到 %s 的整数"}, "between(o.%s, %s, %s)", true},
	"name": {"string", "NAME", Text{"1 to 64 letters, digits, dots, underscores and hyphens", "1 到 64 个字母、数字、点、下划线与连字符"}, "isName(o.%s)", false},
	"path": {"string", "PATH", Text{"a path", "路径"}, `o.%s != ""`, false},
	"ratio": {"float64", "RATIO", Text{"a number above 0, at most 1", "大于 0 且不大于 1 的数"},
		"isRatio(o.%s)", false},
	"sink": {"Sink", "SINK", Text{"file:PATH, file:PATH?framing=lf, file:PATH?framing=length or stdout:",
		"file:PATH、file:PATH?framing=lf、file:PATH?framing=length 或 stdout:"}, "o.%s.valid()", false},
	"size": {"Size", "SIZE", Text{"a size from %s to %s", "%s 到 %s 的大小"}, "between(o.%s, %s, %s)", true},
	"text": {"string", "TEXT", Text{"text", "文本"}, "", false},
	"tokens": {"[]Token", "NAME=TOKEN", Text{"NAME=TOKEN, with a collector's name and a token that is not empty, holds no LF and ends in no CR, each token once",
		"NAME=TOKEN，即采集器名称与令牌；令牌非空、不含 LF、不以 CR 结尾，每个令牌一次"}, "validTokens(o.%s)", false},
}

var optionForm = regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)

func loadOptions(root fs.FS) (*Options, error) {
	o := new(Options)
	if err := load(root, "spec/options.yaml", o); err != nil {
		return nil, err
	}
	for _, p := range o.Programs {
		var seen []string
		for _, opt := range p.Options {
			if slices.Contains(seen, opt.Name) {
				return nil, fmt.Errorf("spec/options.yaml: %s: option %s is there twice", p.Name, opt.Name)
			}
			seen = append(seen, opt.Name)
			if err := opt.check(); err != nil {
				return nil, fmt.Errorf("spec/options.yaml: %s: option %q: %w", p.Name, opt.Name, err)
			}
		}
	}
	return o, nil
}

func (o *Option) check() error {
	kind, known := optionTypes[o.Type]
	switch {
	case !optionForm.MatchString(o.Name):
		return fmt.Errorf("the name must be lower-case words joined by -")
	case !known:
		return fmt.Errorf("type %q is not known", o.Type)
	case (o.Type == "choice") != (len(o.Choices) > 0):
		return fmt.Errorf("a choice has choices, and nothing else has")
	case o.Type == "choice" && !slices.Contains(o.Choices, o.Default):
		return fmt.Errorf("default %q is not one of the choices", o.Default)
	case kind.bounded && (o.Default == "" || o.Min == "" || o.Max == ""):
		return fmt.Errorf("needs a default, a min and a max")
	}
	if err := o.Text.check(); err != nil || !kind.bounded {
		return err
	}
	var bounds [3]int64
	for i, text := range []string{o.Min, o.Default, o.Max} {
		n, err := o.value(text)
		if err != nil {
			return err
		}
		bounds[i] = n
	}
	if bounds[0] > bounds[1] || bounds[1] > bounds[2] {
		return fmt.Errorf("default %s is not from %s to %s", o.Default, o.Min, o.Max)
	}
	return nil
}

// value reads a bound in the notation of its type.
func (o *Option) value(text string) (int64, error) {
	switch o.Type {
	case "duration":
		d, err := time.ParseDuration(text)
		return int64(d), err
	case "size":
		number := strings.TrimRight(text, "BKMGTi")
		n, err := strconv.ParseInt(number, 10, 64)
		shift, known := map[string]int{"B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}[text[len(number):]]
		if err != nil || !known {
			return 0, fmt.Errorf("%q is no size", text)
		}
		return n << shift, nil
	default:
		return strconv.ParseInt(text, 10, 64)
	}
}

// GoType is the type of the option's field.
func (o *Option) GoType() string { return optionTypes[o.Type].goType }

// Allowed says in words what the value may be.
func (o *Option) Allowed(lang string) string {
	text := optionTypes[o.Type].allowed.In(lang)
	switch {
	case o.Type == "choice":
		or := map[string]string{"en": " or ", "zh": " 或 "}[lang]
		return fmt.Sprintf(text, strings.Join(o.Choices, or))
	case optionTypes[o.Type].bounded && o.Min == o.Max:
		return o.Min
	case optionTypes[o.Type].bounded:
		return fmt.Sprintf(text, o.Min, o.Max)
	}
	return text
}

// Check is the Go condition that the value is allowed; "" when any is.
func (o *Option) Check() (string, error) {
	kind, name := optionTypes[o.Type], goName(o.Name)
	switch {
	case o.Type == "choice":
		var quoted []string
		for _, c := range o.Choices {
			quoted = append(quoted, strconv.Quote(c))
		}
		return fmt.Sprintf(kind.check, name, strings.Join(quoted, ", ")), nil
	case kind.bounded:
		low, err := o.value(o.Min)
		if err != nil {
			return "", err
		}
		high, err := o.value(o.Max)
		return fmt.Sprintf(kind.check, name, strconv.FormatInt(low, 10), strconv.FormatInt(high, 10)), err
	case kind.check == "" || o.Type == "path" && o.Default == "":
		return "", nil
	}
	return fmt.Sprintf(kind.check, name), nil
}

// Env is the option's name in the environment.
func (o *Option) Env() string {
	return "TIDEMARK_" + strings.ToUpper(strings.ReplaceAll(o.Name, "-", "_"))
}

// Tag is the struct tag for kong.
func (o *Option) Tag() string {
	var b strings.Builder
	add := func(key, value string) { fmt.Fprintf(&b, "%s:%s ", key, strconv.Quote(value)) }
	add("name", o.Name)
	add("env", o.Env())
	if o.Default != "" {
		add("default", o.Default)
	}
	if o.Required {
		add("required", "")
	}
	if p := optionTypes[o.Type].placeholder; p != "" {
		add("placeholder", p)
	}
	if o.Type == "choice" {
		add("placeholder", strings.Join(o.Choices, "|"))
	}
	if o.Secret {
		add("secret", "")
	}
	if o.File != nil && !*o.File {
		add("nofile", "")
	}
	add("sep", "none")
	add("mapsep", "none")
	add("allowed", o.Allowed("en"))
	add("help", o.En)
	return "`" + strings.TrimSpace(b.String()) + "`"
}

func generateOptions(root fs.FS) ([]output, error) {
	o, err := loadOptions(root)
	if err != nil {
		return nil, err
	}
	code, err := renderGo("config/options_gen.go", "options.go.tmpl", o)
	if err != nil {
		return nil, err
	}
	outputs := []output{code}
	for _, lang := range languages {
		doc, err := fillDocument(root, "docs/"+lang+"/options.md", optionTables(o, lang))
		if err != nil {
			return nil, err
		}
		outputs = append(outputs, doc)
	}
	return outputs, nil
}
