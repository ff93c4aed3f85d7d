package metadata

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// SettingType is the type of a topic setting, numbered as DescribeConfigs tells it to clients.
type SettingType int8

// The types that topic settings have.
const (
	TypeBool   SettingType = 1
	TypeString SettingType = 2
	TypeInt    SettingType = 3
	TypeLong   SettingType = 5
	TypeDouble SettingType = 6
	TypeList   SettingType = 7
)

// Setting is one setting of topics: what it is called, what it may hold and whether this version acts on it. The table
// is settingTable; values are immutable.
type Setting struct {
	Name    string
	Type    SettingType
	Default string // canonical
	// Broker is the name under which Kafka's brokers hold the default of this setting; empty where they hold none.
	Broker string
	// Unset says that the broker-level name has no value by itself, so that a default is not described under it.
	Unset bool
	// Honoured says that any legal value takes effect. Other settings are known, described, and accepted only at their
	// default: a value that nothing would act on is refused rather than remembered.
	Honoured bool
	Doc      string

	min, max float64                  // bounds of numbers, inclusive
	allowed  []string                 // values of strings, elements of lists; nil allows any
	other    map[string]string        // further spellings of values, with the canonical ones
	check    func(value string) error // what bounds and allowed cannot say
}

// LookupSetting gives the setting of that name.
func LookupSetting(name string) (*Setting, bool) {
	s, ok := settingsByName[name]
	return s, ok
}

// Settings gives all settings by rising names. The slice is shared and must not be changed.
func Settings() []Setting { return settingTable }

// Parse checks a value by type and bounds and gives its canonical form: without space around it, booleans in small
// letters, list elements once each. Its errors wrap ErrInvalidConfig. Whether the setting is honoured is Accept's matter.
func (s *Setting) Parse(raw string) (string, error) {
	v := strings.TrimSpace(raw)
	if canonical, ok := s.other[v]; ok {
		v = canonical
	}
	switch s.Type {
	case TypeBool:
		v = strings.ToLower(v)
		if v != "true" && v != "false" {
			return "", s.refuse(raw, "must be true or false")
		}
	case TypeInt, TypeLong:
		bits := 64
		if s.Type == TypeInt {
			bits = 32
		}
		n, err := strconv.ParseInt(v, 10, bits)
		if err != nil {
			return "", s.refuse(raw, fmt.Sprintf("must be a whole number of %d bits", bits))
		}
		if float64(n) < s.min || float64(n) > s.max {
			return "", s.refuse(raw, s.bounds())
		}
		v = strconv.FormatInt(n, 10)
	case TypeDouble:
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsNaN(f) {
			return "", s.refuse(raw, "must be a number")
		}
		if f < s.min || f > s.max {
			return "", s.refuse(raw, s.bounds())
		}
	case TypeString:
		if s.allowed != nil && !contains(s.allowed, v) {
			return "", s.refuse(raw, "must be one of "+strings.Join(s.allowed, ", "))
		}
	case TypeList:
		elements := SplitList(v)
		for _, e := range elements {
			if s.allowed != nil && !contains(s.allowed, e) {
				return "", s.refuse(raw, "may hold only "+strings.Join(s.allowed, ", "))
			}
		}
		v = strings.Join(elements, ",")
	}
	if s.check != nil {
		if err := s.check(v); err != nil {
			return "", s.refuse(raw, err.Error())
		}
	}
	return v, nil
}

// Accept is Parse, and refuses a value that this version would not act on.
func (s *Setting) Accept(raw string) (string, error) {
	v, err := s.Parse(raw)
	if err != nil {
		return "", err
	}
	if !s.Honoured && !s.isDefault(v) {
		return "", fmt.Errorf("%w: %s: %q is not supported yet, only the default %q is", ErrInvalidConfig, s.Name, raw, s.Default)
	}
	if s.Name == SettingCleanupPolicy && v != "delete" && v != "" {
		return "", fmt.Errorf("%w: %s: %q is not supported yet, only delete is", ErrInvalidConfig, s.Name, raw)
	}
	return v, nil
}

func (s *Setting) isDefault(canonical string) bool {
	if s.Type == TypeDouble {
		a, _ := strconv.ParseFloat(canonical, 64)
		b, _ := strconv.ParseFloat(s.Default, 64)
		return a == b
	}
	return canonical == s.Default
}

func (s *Setting) refuse(raw, why string) error {
	return fmt.Errorf("%w: %s: %q: %s", ErrInvalidConfig, s.Name, raw, why)
}

func (s *Setting) bounds() string {
	if math.IsInf(s.max, 1) {
		return fmt.Sprintf("must be at least %v", s.min)
	}
	return fmt.Sprintf("must be from %v to %v", s.min, s.max)
}

// AcceptSetting checks a value that a client gives a topic. The canonical form it returns is what is in force; errors
// wrap ErrInvalidConfig.
func AcceptSetting(name, raw string) (string, error) {
	s, ok := LookupSetting(name)
	if !ok {
		return "", fmt.Errorf("%w: %q is no setting of topics", ErrInvalidConfig, name)
	}
	return s.Accept(raw)
}

// SplitList gives the elements of a list value in order, each once, without the space around them.
func SplitList(value string) []string {
	var l []string
	for e := range strings.SplitSeq(value, ",") {
		if e = strings.TrimSpace(e); e != "" && !contains(l, e) {
			l = append(l, e)
		}
	}
	return l
}

func contains(l []string, v string) bool {
	for _, e := range l {
		if e == v {
			return true
		}
	}
	return false
}
