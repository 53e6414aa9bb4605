// Package version tells which build a program is. [String] is its one entry point.
//
// The rule of the package: it tells what the Go toolchain recorded, and nothing has to be set by hand.
package version

import "runtime/debug"

// String is the module's version, and the commit it was built from where that is known.
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version := info.Main.Version
	if version == "" {
		version = "(devel)"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			version += " " + s.Value
		}
	}
	return version + " " + info.GoVersion
}
