// Package testdata holds the scripts of package statemachine, for others that run them.
package testdata

import "embed"

// Scripts are the stories in this folder, one a file.
//
//go:embed *.txt
var Scripts embed.FS
