package config

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// ParseServer reads the options of tidemarkd: args without the program's name, the environment, and the file that
// --config names. Help and version go to stdout. The error is ErrPrinted or a *UsageError.
func ParseServer(args []string, stdout io.Writer, version string) (*Server, error) {
	var grammar struct {
		Server  Server           `embed:""`
		Version kong.VersionFlag `help:"Print the version and end."`
	}
	_, err := Parse(&grammar, args, stdout, kong.Name("tidemarkd"), kong.Vars{"version": version},
		kong.Description("Takes batches from collectors and acknowledges them when they are safe."))
	if err != nil {
		return nil, err
	}
	if err := grammar.Server.Validate(); err != nil {
		return nil, err
	}
	return &grammar.Server, nil
}

// Parse reads args into a kong grammar that may hold a Server or, as a command, a Send. Help and version go to stdout.
// The error is ErrPrinted or a *UsageError.
func Parse(grammar any, args []string, stdout io.Writer, options ...kong.Option) (*kong.Context, error) {
	printed := false
	sources := new(sources)
	options = append(options, mappers(), kong.Writers(stdout, stdout), kong.Exit(func(int) { printed = true }),
		kong.Resolvers(sources), kong.WithBeforeResolve(sources.open), kong.ConfigureHelp(kong.HelpOptions{Compact: true}))
	parser, err := kong.New(grammar, options...)
	if err != nil {
		panic("config: the grammar is broken: " + err.Error())
	}
	ctx, err := parser.Parse(args)
	var usage *UsageError
	switch {
	case printed:
		return nil, ErrPrinted
	case errors.As(err, &usage):
		return nil, usage
	case err != nil:
		return nil, &UsageError{Problem: err.Error()}
	}
	return ctx, nil
}

// mappers reads the types of options, so that all errors name the option, the value and what is allowed.
func mappers() kong.Option {
	return kong.OptionFunc(func(k *kong.Kong) error {
		for _, o := range []kong.Option{
			mapper(parseSize), mapper(parseSink), mapper(parseInt), mapper(parseRatio), mapper(parseDuration),
			lines(parseToken), lines(parseFirst), kong.TypeMapper(reflect.TypeFor[bool](), truth{}),
		} {
			if err := o.Apply(k); err != nil {
				return err
			}
		}
		return nil
	})
}

// truth reads an option that needs no value.
type truth struct{}

func (truth) IsBool() bool { return true }

func (truth) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	yes := true
	if ctx.Scan.Peek().Type == kong.FlagValueToken { // behind "=", or from the environment or the file
		text := fmt.Sprint(ctx.Scan.Pop().Value)
		var err error
		if yes, err = strconv.ParseBool(text); err != nil {
			return refuse(ctx, text)
		}
	}
	target.SetBool(yes)
	return nil
}

func parseInt(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil
}

func parseRatio(text string) (float64, bool) {
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}

func parseDuration(text string) (time.Duration, bool) {
	d, err := time.ParseDuration(text)
	return d, err == nil
}

// mapper reads one value.
func mapper[T any](parse func(string) (T, bool)) kong.Option {
	return kong.TypeMapper(reflect.TypeFor[T](), kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		text, err := value(ctx)
		if err != nil {
			return err
		}
		v, ok := parse(text)
		if !ok {
			return refuse(ctx, text)
		}
		target.Set(reflect.ValueOf(v))
		return nil
	}))
}

// lines reads one more value of a list, or several, one a line.
func lines[T any](parse func(string) (T, bool)) kong.Option {
	return kong.TypeMapper(reflect.TypeFor[[]T](), kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		text, err := value(ctx)
		if err != nil {
			return err
		}
		for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
			v, ok := parse(line)
			if !ok {
				return refuse(ctx, line)
			}
			target.Set(reflect.Append(target, reflect.ValueOf(v)))
		}
		return nil
	}))
}

// value is the text of an option's value. One that begins with a hyphen is taken when it is a number and so can't be an
// option: kong takes it only behind "=".
func value(ctx *kong.DecodeContext) (string, error) {
	if text, ok := ctx.Scan.Peek().Value.(string); ok && negative.MatchString(text) {
		ctx.Scan.Pop()
		return text, nil
	}
	token, err := ctx.Scan.PopValue("value")
	if err != nil {
		return "", &UsageError{Option: ctx.Value.Name, Problem: "needs a value: " + ctx.Value.Tag.Get("allowed")}
	}
	return fmt.Sprint(token.Value), nil
}

var negative = regexp.MustCompile(`^-[0-9]`)

func refuse(ctx *kong.DecodeContext, text string) error {
	if ctx.Value.Tag.Has("secret") {
		text = secret
	}
	return bad(ctx.Value.Name, text, ctx.Value.Tag.Get("allowed"))
}
