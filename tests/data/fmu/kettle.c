/* A small FMI 2.0 co-simulation model for the tests: a first-order reaction, dc/dt = rate * (1 - c).
   The types follow the FMI 2.0 standard; nothing is copied from its headers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#define API __declspec(dllexport)
#else
#define API __attribute__((visibility("default")))
#endif

typedef void *Component;
typedef unsigned int Reference;
typedef void (*Logger)(void *, const char *, int, const char *, const char *, ...);
typedef struct { Logger logger; void *allocate, *release, *finished, *environment; } Callbacks;
enum { OK = 0, FAILED = 3 };
enum { TEMPERATURE = 1, SPEED = 2, CONVERSION = 3, HEAT = 4 };
typedef struct { double values[5]; Callbacks callbacks; char name[64]; } Kettle;

API const char *fmi2GetTypesPlatform(void) { return "default"; }
API const char *fmi2GetVersion(void) { return "2.0"; }
API int fmi2SetDebugLogging(Component c, int on, size_t n, const char *const names[]) { return OK; }
API Component fmi2Instantiate(const char *name, int type, const char *guid, const char *folder, const Callbacks *callbacks,
                              int visible, int on) {
    Kettle *made = calloc(1, sizeof(Kettle));
    made->values[TEMPERATURE] = 60; made->values[SPEED] = 1;
    made->callbacks = *callbacks;
    strncpy(made->name, name, sizeof(made->name) - 1);
    return made;
}
API void fmi2FreeInstance(Component c) { free(c); }
API int fmi2SetupExperiment(Component c, int a, double b, double t, int d, double e) { return OK; }
API int fmi2EnterInitializationMode(Component c) { return OK; }
API int fmi2ExitInitializationMode(Component c) { return OK; }
API int fmi2Terminate(Component c) { return OK; }
API int fmi2Reset(Component c) { return OK; }
API int fmi2GetReal(Component c, const Reference r[], size_t n, double v[]) {
    for (size_t i = 0; i < n; i++) v[i] = ((Kettle *)c)->values[r[i]];
    return OK;
}
API int fmi2SetReal(Component c, const Reference r[], size_t n, const double v[]) {
    for (size_t i = 0; i < n; i++) ((Kettle *)c)->values[r[i]] = v[i];
    return OK;
}
#define NOTHING(name, type) API int name(Component c, const Reference r[], size_t n, type v) { return OK; }
NOTHING(fmi2GetInteger, int *) NOTHING(fmi2SetInteger, const int *)
NOTHING(fmi2GetBoolean, int *) NOTHING(fmi2SetBoolean, const int *)
NOTHING(fmi2GetString, const char **) NOTHING(fmi2SetString, const char *const *)
API int fmi2DoStep(Component c, double time, double step, int last) {
    Kettle *kettle = c;
    double *v = kettle->values, rate = 0.02 * v[SPEED] * exp((v[TEMPERATURE] - 60) / 15);
    if (v[TEMPERATURE] > 95) {
        kettle->callbacks.logger(kettle->callbacks.environment, kettle->name, FAILED, "error", "the kettle boils over");
        return FAILED;
    }
    v[CONVERSION] = 1 - (1 - v[CONVERSION]) * exp(-rate * step);
    v[HEAT] = 0.4 * (v[TEMPERATURE] - 20);
    return OK;
}
/* The standard asks for these as well; this model has no state to save, no derivatives and no asynchronous steps. */
#define ABSENT(name) API int name(Component c) { return FAILED; }
ABSENT(fmi2GetFMUstate) ABSENT(fmi2SetFMUstate) ABSENT(fmi2FreeFMUstate) ABSENT(fmi2SerializedFMUstateSize)
ABSENT(fmi2SerializeFMUstate) ABSENT(fmi2DeSerializeFMUstate) ABSENT(fmi2GetDirectionalDerivative)
ABSENT(fmi2SetRealInputDerivatives) ABSENT(fmi2GetRealOutputDerivatives) ABSENT(fmi2CancelStep) ABSENT(fmi2GetStatus)
ABSENT(fmi2GetRealStatus) ABSENT(fmi2GetIntegerStatus) ABSENT(fmi2GetBooleanStatus) ABSENT(fmi2GetStringStatus)
