package protocol

// String leaves the token out, so that a Hello can be logged.
func (h Hello) String() string { return h.Collector + " " + h.Instance }

// GoString leaves the token out.
func (h Hello) GoString() string { return h.String() }

// disagree says what first and next demand of each other.
func (h *Hello) disagree() (what, allowed string) {
	if (h.First == 0) != (h.Next == 0) || h.First > h.Next {
		return "members first and next disagree", "first from 1 to next, or both 0"
	}
	return "", ""
}

// disagree says what the watermark and the highest number demand of each other.
func (w *Welcome) disagree() (what, allowed string) {
	if w.Committed > w.Received {
		return "members committed and received disagree", "committed at most received"
	}
	return "", ""
}
