package config

import (
	"errors"
	"fmt"
)

// ErrPrinted says that help or the version was asked for and printed: the program ends with exit code 0.
var ErrPrinted = errors.New("config: help or version was printed")

// A UsageError says which option is wrong, its value, and what is allowed. A program ends with exit code 2.
type UsageError struct {
	Option  string // such as "queue-capacity"; "" when it is not about one
	Value   string // as it was given; "" for secrets
	Problem string // what is wrong, or what is allowed
}

// Error says all of it on one line.
func (e *UsageError) Error() string {
	switch {
	case e.Option == "":
		return e.Problem
	case e.Value == "":
		return fmt.Sprintf("--%s: %s", e.Option, e.Problem)
	default:
		return fmt.Sprintf("--%s %q: %s", e.Option, e.Value, e.Problem)
	}
}

// secret stands for a value that must not be shown.
const secret = ""

// bad refuses the value of an option.
func bad(option string, value any, allowed string) error {
	return &UsageError{Option: option, Value: fmt.Sprint(value), Problem: "must be " + allowed}
}
