package mutants

// What the specification demands of a seat, of the server around it, and of the collector: Seat.tla.
var seats = []mutant{
	{"HELLO takes the seat", "the seat changes hands with HELLO, though a dead connection may say it", []edit{
		{"model/explore/seat_server.go", "	if !e.WaitReady {\n", "	if e.WaitReady {\n"},
		{"model/explore/seat_server.go", "	} else {\n		w.replies[conn-1].push(newAnswer(fenced, 0))\n	}\n}\n", "	}\n}\n"},
		{"server/dialect2.go", "		return c.hello(ctx, req.Hello)\n", "		if err := c.hello(ctx, req.Hello); err != nil {\n			return err\n		}\n		return c.takeSeat()\n"},
		{"server/dialect2.go", "	case cmd == protocol.CommandReady && c.stream != nil && !c.ready:\n		return c.takeSeat()\n", "	case cmd == protocol.CommandReady && c.stream != nil:\n		return nil\n"},
	}},
	{"older connection closed at READY", "what an older connection still brings is taken after WELCOME said what is missing", []edit{
		{"statemachine/seat.go", "	t.owner, t.asker, t.asked = 0, conn, h\n", "	t.asker, t.asked = conn, h\n"},
	}},
	{"READY of any connection", "a connection that was not welcomed, or not as the last one, gets the seat", []edit{
		{"statemachine/seat.go", "	if conn != t.asker || conn == 0 {\n", "	if t.asker == 0 || conn == 0 {\n"},
	}},
	{"seat not stored", "a change of instance is not stored", []edit{
		{"model/explore/seat_server.go", "		w.stored = e.seats.at(w.seat).image\n", ""},
		{"server/seat.go", "	change = &store.Change{Collector: st.name, Seat: &image}\n", "	_ = image\n	change = &store.Change{Collector: st.name}\n"},
	}},
	{"fenced connection still writes", "what comes on a connection without the seat is taken", []edit{
		{"statemachine/seat.go", "	return conn != 0 && conn == t.owner && (t.gap == 0 || id <= t.gap)\n", "	return conn != 0 && t.owner != 0 && (t.gap == 0 || id <= t.gap)\n"},
	}},
	{"retired instance accepted", "an instance that was superseded may come back", []edit{
		{"statemachine/seat.go", "	case slices.Contains(t.retired, h.Instance):\n		return Retired\n", ""},
	}},
	{"next ignored", "a buffer that lost its tail goes on, and gives numbers a second time", []edit{
		{"statemachine/seat.go", "	case h.Next != 0 && h.Next <= s.received:\n		return Forgot\n", ""},
	}},
	{"WELCOME without missing", "the collector is not told what it must send again", []edit{
		{"statemachine/seat.go", "	missing := slices.Clone(s.missing)\n", "	missing := ranges(nil)\n"},
	}},
	{"what is given up is not told", "READY does not say which numbers nobody holds any more", []edit{
		{"statemachine/seat.go", "		lost = s.Lost(first)\n		s.Rebase(first)\n", "		s.Rebase(first)\n"},
	}},
	{"rebase left out", "READY does not give up what nobody holds any more", []edit{
		{"statemachine/seat.go", "		lost = s.Lost(first)\n		s.Rebase(first)\n", "		lost = s.Lost(first)\n"},
	}},
	{"taken past a RESEND", "batches above one that was refused for now are taken", []edit{
		{"statemachine/seat.go", "	return conn != 0 && conn == t.owner && (t.gap == 0 || id <= t.gap)\n", "	return conn != 0 && conn == t.owner\n"},
	}},
	{"second RESEND not told", "a number that is refused for now a second time gets no answer", []edit{
		{"statemachine/seat.go", "	if ok = t.Takes(conn, id); ok {\n		t.gap = id\n", "	if ok = t.Takes(conn, id) && t.gap != id; ok {\n		t.gap = id\n"},
	}},
	{"NACK leaves the gap", "after a RESEND, a NACK of that number holds back everything above it", []edit{
		{"statemachine/seat.go", "	if ok = t.Takes(conn, id); ok {\n		t.took(id)\n", "	if ok = t.Takes(conn, id); ok {\n"},
	}},
	{"watermark told once", "a new owner is not told what the one before was told", []edit{
		{"statemachine/seat.go", "	t.pushed, t.gap = 0, 0\n", "	t.gap = 0\n"},
	}},
	{"ACK to who asked first", "the watermark is told to a connection that was welcomed only", []edit{
		{"statemachine/seat.go", "	return t.owner, t.pushed, true\n", "	return max(t.owner, t.asker), t.pushed, true\n"},
		{"statemachine/seat.go", "	if t.owner == 0 || s.committed <= t.pushed {\n", "	if t.owner == 0 && t.asker == 0 || s.committed <= t.pushed {\n"},
	}},
	{"skip not reported", "a number that the collector gives up is not told as lost", []edit{
		{"statemachine/seat.go", "	if lost = s.CanSkip(id); lost {\n		s.Skip(id)\n	}\n	return lost\n", "	if s.CanSkip(id) {\n		s.Skip(id)\n	}\n	return false\n"},
	}},
	{"window of what is held", "the collector counts the window from the lowest batch that it holds", []edit{
		{"model/explore/seat_collector.go", "k.unsent.min() > k.acked+k.constants.Window", "k.unsent.min() >= k.first+k.constants.Window"},
		{"collector/core2.go", "number-min(c.acked, number) <= c.window.Batches", "c.cursor-c.first < c.window.Batches"},
	}},
	{"RESEND ignored", "the collector does not go back", []edit{
		{"model/explore/seat_collector.go", "	k.unsent |= k.held() & between(statemachine.Range{First: id, Last: uint64(k.produced)})\n", ""},
		{"collector/core2_reply.go", "	c.cursor = min(c.cursor, max(id, c.first))\n	if id > c.top {\n", "	if id > 0 {\n"},
	}},
}
