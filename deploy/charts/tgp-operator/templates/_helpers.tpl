{{- define "tgp-operator.selector" -}}
app.kubernetes.io/name: tgp-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tgp-operator.labels" -}}
{{ include "tgp-operator.selector" . }}
app.kubernetes.io/part-of: tgp
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "tgp-operator.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}

{{- /* The operator serves probes and metrics at settings.listen. */}}
{{- define "tgp-operator.port" -}}
{{ regexFind "[0-9]+$" .Values.settings.listen }}
{{- end }}

{{- define "tgp-operator.lease" -}}
{{ dig "lease" "name" "tgp-operator" .Values.settings }}
{{- end }}
