package explore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/statemachine"
)

func TestReadSeatConfig(t *testing.T) {
	require.Equal(t, &SeatConfig{
		Header: Header{
			Name: "Seat_NoSkip", Shows: "without SKIP the watermark never gets past a batch that is refused for good",
			MustFail: true, Properties: []string{"AllAcknowledged"},
		},
		Constants: SeatConstants{
			Limits:    statemachine.Limits{QueueCapacity: 2, Ahead: 4, History: 2, MaxCheckpoints: 1, MaxNacks: 2},
			LastBatch: 2, Window: 2, Depth: 2, Undecodable: []uint8{1}, WaitReady: true, CloseOlder: true, CheckNext: true,
		},
	}, readSeatConfigs(t, "Seat_NoSkip")[0])
	require.Empty(t, readSeatConfigs(t, "Seat_Main")[0].Constants.Undecodable)
}

// TestSeatCheckedIsNamed: what a config names is checked, or said to be left to TLC.
func TestSeatCheckedIsNamed(t *testing.T) {
	for _, cfg := range readSeatConfigs(t, "Seat_*") {
		checked := append(cfg.Checked(), cfg.LeftToTLC()...)
		for _, name := range append(cfg.Invariants, cfg.Properties...) {
			require.Contains(t, checked, name, cfg.Name)
		}
		for _, name := range cfg.LeftToTLC() {
			require.Equal(t, "AllAcknowledged", name, cfg.Name)
		}
	}
}

func TestSeatConfigErrors(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(specDir, "Seat_Denied.cfg"))
	require.NoError(t, err)
	for _, c := range []struct{ old, replacement, want string }{
		{"Window = 2", "", "constant Window is not given"},
		{"Undecodable = {}", "Undecodable = 1", `constant Undecodable: "1", allowed is a set of numbers`},
		{"Undecodable = {}", "Undecodable = {1, two}", "constant Undecodable: "},
		{"LastBatch = 2", "LastBatch = 15", "LastBatch is 15, the explorer allows at most 14"},
		{"LastBatch = 2", "LastBatch = 5", "LastBatch * (MaxResets + MaxForgets + 1) is 10, the explorer allows at most 8"},
		{"Depth = 2", "Depth = 5", "Depth is 5, the explorer allows at most 4"},
		{"NoRefusal", "Covered", "invariant Covered: not one of Seat.tla"},
	} {
		require.Contains(t, string(text), c.old)
		path := filepath.Join(t.TempDir(), "Bad.cfg")
		require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(text), c.old, c.replacement, 1)), 0o600))
		_, err := ReadSeatConfig(path)
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, path)
	}
	_, err = ReadSeatConfig(filepath.Join(t.TempDir(), "None.cfg"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
