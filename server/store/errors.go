package store

import "errors"

// ErrTransient is wrapped by errors of Save and Anchor that left the store as it was: a full disk.
var ErrTransient = errors.New("transient")
