package model

import (
	"fmt"
	"strings"

	"github.com/tidemark/tidemark/statemachine"
)

var streamFields = []string{"epoch", "anchored", "committed", "received", "queue", "inflight", "settled",
	"missing", "digests", "checkpoints", "last", "nacks", "halted"}

var imageFields = []string{"epoch", "anchored", "watermark", "received", "queue", "missing", "digests"}

// describe names the fields of a line and leaves out those that are empty or zero.
func describe(names []string, line string) string {
	var words []string
	for i, value := range strings.Fields(line) {
		if value != "0" && value != "-" {
			words = append(words, names[i]+"="+value)
		}
	}
	return "[" + strings.Join(words, " ") + "]"
}

// DescribeStream is a stream for people: the fields that are not empty, with their names.
func DescribeStream(s *statemachine.State) string { return describe(streamFields, FormatStream(s)) }

// DescribeImage is likewise an image for people.
func DescribeImage(i *statemachine.Image) string { return describe(imageFields, FormatImage(i)) }

// differences names the fields in which two lines differ, and how.
func differences(names []string, want, got string) string {
	var list []string
	wants, gots := strings.Fields(want), strings.Fields(got)
	for i, name := range names {
		if wants[i] != gots[i] {
			list = append(list, name+": want "+shorten(wants[i])+", got "+shorten(gots[i]))
		}
	}
	return strings.Join(list, "; ")
}

// shorten keeps both ends of a long list.
func shorten(value string) string {
	if words := strings.Split(value, ","); len(words) > 4 {
		return fmt.Sprintf("%s,…,%s (%d)", words[0], words[len(words)-1], len(words))
	}
	return value
}
