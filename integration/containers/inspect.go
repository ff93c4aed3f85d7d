package containers

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// container is what docker inspect tells of one.
type container struct {
	ID    string
	Name  string
	State struct {
		Running  bool
		Paused   bool
		ExitCode int
	}
	Config struct {
		Labels map[string]string
	}
	NetworkSettings struct {
		Networks map[string]network
	}
	Mounts []struct {
		Type        string
		Name        string
		Destination string
	}
}

// network is a container's place in one.
type network struct {
	NetworkID string
	IPAddress string
	Aliases   []string
}

// decodeContainers reads what docker inspect prints.
func decodeContainers(text []byte) (out []container, err error) {
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("docker inspect: %w", err)
	}
	return out, nil
}

// addresses are the IPv4 addresses, in the order of the networks' names.
func (c *container) addresses() (out []string) {
	for _, name := range c.networks() {
		if a := c.NetworkSettings.Networks[name].IPAddress; a != "" {
			out = append(out, a)
		}
	}
	return out
}

func (c *container) networks() (names []string) {
	for name := range c.NetworkSettings.Networks {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// volume is the name of the volume that is mounted there; empty: none.
func (c *container) volume(target string) string {
	for _, m := range c.Mounts {
		if m.Destination == target && m.Type == "volume" {
			return m.Name
		}
	}
	return ""
}

// decodeImage reads what docker image inspect prints of one image.
func decodeImage(text []byte) (image, error) {
	var found []struct{ Config image }
	if err := json.Unmarshal(text, &found); err != nil {
		return image{}, fmt.Errorf("docker image inspect: %w", err)
	}
	if len(found) != 1 {
		return image{}, errors.New("docker image inspect tells of no image")
	}
	return found[0].Config, nil
}

// tail gives the last lines of a text.
func tail(text string, n int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-n):], "\n")
}
